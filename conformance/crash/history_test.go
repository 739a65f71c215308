//go:build unix

package crash

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/conformance/sim/check"
)

// history has all that the clients of this process send and receive, if CRASH_OPERATIONS names a folder for it.
var history check.History

func operationsFolder() string { return os.Getenv("CRASH_OPERATIONS") }

// recorded is a stream whose messages are written down.
type recorded struct {
	raw.Stream
	client, number int
}

// record stands between a client and its stream.
func (c *client) record(stream raw.Stream) raw.Stream {
	if operationsFolder() == "" {
		return stream
	}
	return &recorded{stream, c.number, history.Open(time.Duration(monotonic()), c.number, 0, nodePath)}
}

func (r *recorded) Send(m *raw.Request) error {
	history.Add(time.Duration(monotonic()), &check.Sent{Client: r.client, Stream: r.number, Request: m})
	return r.Stream.Send(m)
}

func (r *recorded) Recv() (*raw.Response, error) {
	m, err := r.Stream.Recv()
	now := time.Duration(monotonic())
	if err != nil {
		history.Add(now, &check.Ended{Client: r.client, Stream: r.number, Text: err.Error()})
		return nil, err
	}
	history.Add(now, &check.Got{Client: r.client, Stream: r.number, Message: m})
	return m, nil
}

// writeOperations leaves the operations on the shared semaphores, which existed before, for conformance/porcupine.
func writeOperations(t *testing.T) {
	t.Helper()
	if operationsFolder() == "" {
		return
	}
	var list []check.Operation
	for i := range sharedSemaphores {
		list = append(list, check.Operation{Semaphore: nodePath + "/" + sharedName(i), Kind: model.Create,
			Limit: sharedLimit, Status: model.Success})
	}
	for _, o := range check.Operations(history.Events()) {
		if limitOf(filepath.Base(o.Semaphore)) == sharedLimit {
			list = append(list, o)
		}
	}
	f, err := os.Create(filepath.Join(operationsFolder(), t.Name()))
	if err = errors.Join(err, check.WriteOperations(f, list), f.Close()); err != nil {
		t.Fatal(err)
	}
}
