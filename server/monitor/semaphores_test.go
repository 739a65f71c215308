package monitor

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/protocol"
)

// TestScrapeOfSemaphores wants the semaphores that are named, one that does not exist included, with labels that
// Prometheus can read, and no others.
func TestScrapeOfSemaphores(t *testing.T) {
	const node = "/local/app"
	const odd = "a\"b\\c\nd"
	s, conn := serve(t, Options{
		Semaphores: []Semaphore{{node, "held"}, {node, odd}, {node, "missing"}, {"/local/no", "x"}},
		Certificates: func() map[string]time.Time {
			return map[string]time.Time{"tls-cert": time.Unix(2_000_000_000, 0), "peer-ca": {}}
		}})
	if _, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: node}); err != nil {
		t.Fatal(err)
	}
	c := protocol.New(protocol.Config{Address: s.Addr().String(), Database: "/local", Name: "test",
		Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		}})
	defer c.Close()
	open := func() *protocol.Session {
		session, err := c.Open(t.Context(), protocol.SessionConfig{Node: node, Timeout: time.Minute,
			Description: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(session.Abandon)
		return session
	}
	owner := open()
	for range 5 {
		if got, err := owner.Acquire(t.Context(), protocol.Acquisition{Name: odd, Count: 1, Ephemeral: true}); !got {
			t.Fatal(got, err)
		}
		if got, err := owner.Release(t.Context(), odd); !got {
			t.Fatal(got, err)
		}
	}
	for _, name := range []string{"held", odd, "other"} {
		if got, err := owner.Acquire(t.Context(), protocol.Acquisition{Name: name, Count: 1, Ephemeral: true}); !got {
			t.Fatal(got, err)
		}
	}
	waits := make(chan struct{}, 2)
	for _, wait := range []time.Duration{protocol.Forever, time.Hour} {
		waiter := open()
		go func() {
			_, _ = waiter.Acquire(t.Context(), protocol.Acquisition{Name: "held", Count: math.MaxUint64,
				Ephemeral: true, Wait: wait, Waiting: func() { waits <- struct{}{} }})
		}()
	}
	<-waits
	<-waits
	text := scrape(t, s)
	for _, line := range []string{`owners{node="/local/app",semaphore="held"} 1`,
		`waiters{node="/local/app",semaphore="held"} 2`,
		`held_since_timestamp_seconds{node="/local/app",semaphore="held"} 1.`,
		`finite_wait_seconds{node="/local/app",semaphore="held"} `,
		`finite_wait_used_ratio{node="/local/app",semaphore="held"} `,
		`owners{node="/local/app",semaphore="a\"b\\c\nd"} 1`,
		`usual_hold_seconds{node="/local/app",semaphore="a\"b\\c\nd"} 0.`,
		`owners{node="/local/app",semaphore="missing"} 0`, `owners{node="/local/no",semaphore="x"} 0`} {
		if !strings.Contains(text, "\ncoordd_lock_"+line) {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Count(text, "\ncoordd_lock_held_since_timestamp_seconds{") != 2 || strings.Contains(text, `"other"`) {
		t.Error("what is free, or not named, is shown")
	}
	if strings.Count(text, "\ncoordd_lock_usual_hold_seconds{") != 1 {
		t.Error("a semaphore without former holds has a usual hold")
	}
	for _, line := range []string{`{role="tls-cert"} 2e+09`, `{role="peer-ca"} 0`} {
		if !strings.Contains(text, "\ncoordd_certificate_expiry_timestamp_seconds"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if !strings.Contains(text, "\ncoordd_checkpoint_timestamp_seconds ") {
		t.Error("the age of the checkpoint is not known before the first one")
	}
}
