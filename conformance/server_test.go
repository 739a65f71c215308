package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/server"
)

// TestServer runs the scripts over gRPC on a server in this process, with its data on disk.
func TestServer(t *testing.T) {
	t.Parallel()
	config := server.Config{Listen: "127.0.0.1:0", Database: "/local", DataDir: t.TempDir(),
		HoldStartFailureMillis: new(uint64(0))}
	running, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	restart := func(ctx context.Context) (string, error) {
		if err := stop(ctx, running); err != nil {
			return "", err
		}
		if running, err = server.Start(ctx, config); err != nil {
			return "", err
		}
		return running.Addr().String(), nil
	}
	target, err := Dial(t.Context(), EndpointConfig{Address: running.Addr().String(),
		Database: config.Database, Restart: restart, Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	replay(t, target)
	if err := target.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := stop(t.Context(), running); err != nil {
		t.Error(err)
	}
}

// patience is how long tests wait for what should come; only a failing test uses it up.
const patience = 2 * time.Minute

func stop(ctx context.Context, s interface{ Stop(context.Context) error }) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.Stop(ctx)
}
