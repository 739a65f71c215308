// Package porcupine looks for an order of the operations in a history in which each semaphore could have had them. It
// knows nothing of the log or of times other than those of requests and answers, so that it can find mistakes in checks
// that do. It reads lines of JSON that check.WriteOperations has written, from the simulation or from processes:
//
//	go test -count=1 . -files '../../bin/sim/operations/*' -out DIR
//
// Where a semaphore's operations have no order, the test fails and leaves a page in the folder, which shows how far the
// search came. It is a module of its own because nothing else needs the library github.com/anishathalye/porcupine.
package porcupine

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/coordd/coordd/conformance/sim/check"
)

var (
	files   = flag.String("files", "", "a pattern of files with operations")
	out     = flag.String("out", os.TempDir(), "the folder for pages about histories without an order")
	most    = flag.Int("most", 1000, "operations of a semaphore beyond which only the first ones count")
	longest = flag.Duration("longest", 10*time.Second, "the time for a semaphore, after which nothing is known of it")
)

func TestFiles(t *testing.T) {
	if *files == "" {
		t.Skip("without -files there is nothing to read: make sim-order")
	}
	names, err := filepath.Glob(*files)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no such files, %v", *files, err)
	}
	var sum summary
	for _, name := range names {
		if err := sum.judge(name); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Printf("%d histories of semaphores with %d operations have an order, %d have none, %d are not known\n",
		sum.good, sum.operations, sum.bad, sum.unknown)
	if sum.bad > 0 {
		t.Fail()
	}
}

// summary counts histories of one semaphore each.
type summary struct{ good, bad, unknown, operations int }

// judge looks at a file.
func (s *summary) judge(file string) error {
	bySemaphore, names, err := read(file)
	if err != nil {
		return err
	}
	for i, name := range names {
		list := bySemaphore[name]
		operations := first(list, *most)
		result, info := porcupine.CheckOperationsVerbose(semaphore, operations, *longest)
		switch result {
		case porcupine.Ok:
			s.good++
			s.operations += len(operations)
		case porcupine.Unknown:
			s.unknown++
		default:
			s.bad++
			page := filepath.Join(*out, fmt.Sprintf("%s-%d.html", filepath.Base(file), i))
			fmt.Printf("%s: the operations on %s have no order, see %s\n", file, name, page)
			if err := porcupine.VisualizePath(semaphore, info, page); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the operations of a file by semaphore, and the semaphores in the order in which they come.
func read(file string) (map[string][]*check.Operation, []string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	bySemaphore := make(map[string][]*check.Operation)
	var names []string
	for decoder := json.NewDecoder(f); ; {
		o := new(check.Operation)
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			return bySemaphore, names, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		if bySemaphore[o.Semaphore] == nil {
			names = append(names, o.Semaphore)
		}
		bySemaphore[o.Semaphore] = append(bySemaphore[o.Semaphore], o)
	}
}

// first returns the operations that began before the first one beyond most did. Those that had not ended by then may
// not have taken effect.
func first(list []*check.Operation, most int) []porcupine.Operation {
	var operations []porcupine.Operation
	for _, o := range list[:min(most, len(list))] {
		cut := *o
		if most < len(list) && cut.Return >= list[most].Call {
			cut.Unknown, cut.Return = true, math.MaxInt64
		}
		operations = append(operations, porcupine.Operation{ClientId: o.Client, Input: &cut, Call: cut.Call,
			Return: cut.Return})
	}
	return operations
}
