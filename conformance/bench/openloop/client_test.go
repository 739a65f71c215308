package openloop

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/bench/stub"
)

// Every request of a run is answered once, over sessions that share connections and sessions that do not.
func TestClient(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := stub.New(nil)
	defer server.Stop()
	go func() { _ = server.Serve(listener) }()
	for prefix, connections := range map[string]int{"shared": 2, "own": 5} {
		c, err := Open(Coordd("/local/bench"), listener.Addr().String(), prefix, 5, connections)
		if err != nil {
			t.Fatal(err)
		}
		dues := Poisson(5000, 100*time.Millisecond, 1)
		took, late, unanswered, err := c.Run(dues)
		if err != nil || unanswered != 0 || len(took) != len(dues) || len(late) != len(dues) {
			t.Errorf("%s: %d of %d answered, %d not, %d sent, %v", prefix, len(took), len(dues), unanswered,
				len(late), err)
		}
		if late.Percentile(100) > took.Percentile(100) {
			t.Errorf("sent %v late, answered after %v", late.Percentile(100), took.Percentile(100))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(Coordd("/local/bench"), listener.Addr().String(), "own", 1, 1); err == nil {
		t.Error("the semaphores of another run are used")
	}
}
