package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin"
)

// TestServer runs the scripts over gRPC on a server in this process, with its data on disk.
func TestServer(t *testing.T) {
	testmode.Long(t)
	t.Parallel()
	config := server.Config{Listen: "127.0.0.1:0", Database: "/local",
		HoldStartFailureMillis: new(uint64(0))}
	replayOnServers(t, config, EndpointConfig{}, loadScripts(t))
}

// replayOnServers runs scripts on two servers, one after the other: those in which time passes on one that
// goes by the real clock, and the others on one that a busy machine does not keep from answering in time.
func replayOnServers(t *testing.T, config server.Config, how EndpointConfig, scripts []*Script) {
	t.Helper()
	replayOnServer(t, standin.Slow, config, how, untimedOf(scripts))
	replayOnServer(t, server.Start, config, how, timedOf(scripts))
}

func replayOnServer(t *testing.T, begin starter, config server.Config, how EndpointConfig, scripts []*Script) {
	t.Helper()
	if !config.InMemory {
		config.DataDir = t.TempDir()
	}
	running, err := begin(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	how.Address, how.Database, how.Patience = running.Addr().String(), config.Database, patience
	if !config.InMemory {
		how.Restart = func(ctx context.Context) (string, error) {
			if err := stop(ctx, running); err != nil {
				return "", err
			}
			if running, err = begin(ctx, config); err != nil {
				return "", err
			}
			return running.Addr().String(), nil
		}
	}
	target, err := Dial(t.Context(), how)
	if err != nil {
		t.Fatal(err)
	}
	replayScripts(t, target, scripts)
	if err := target.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := stop(t.Context(), running); err != nil {
		t.Error(err)
	}
}

// patience limits a test's wait for what should come; only a failing test uses it up.
const patience = 2 * time.Minute

func stop(ctx context.Context, s interface{ Stop(context.Context) error }) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.Stop(ctx)
}
