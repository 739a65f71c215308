package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin"
)

// limitedTarget runs each script on servers of its own, which give their cluster the limits of the script.
type limitedTarget struct {
	// start starts the servers and returns the address of the one that the script talks to.
	start func(ctx context.Context, limits coordination.Limits) (address string,
		stop func(context.Context) error, err error)
}

// Offers implements Target.
func (l *limitedTarget) Offers(need Need) bool { return need == NeedLimits || need == NeedSameLeader }

// Open implements Target.
func (l *limitedTarget) Open(ctx context.Context, name string, limits coordination.Limits) (Environment, error) {
	address, stop, err := l.start(ctx, limits)
	if err != nil {
		return nil, err
	}
	target, err := Dial(ctx, EndpointConfig{Address: address, Database: "/local", Patience: patience})
	if err != nil {
		return nil, errors.Join(err, stop(ctx))
	}
	env, err := target.Open(ctx, name, limits)
	if err != nil {
		return nil, errors.Join(err, target.Close(ctx), stop(ctx))
	}
	return &limitedEnvironment{env, func(ctx context.Context) error {
		return errors.Join(target.Close(ctx), stop(ctx))
	}}, nil
}

type limitedEnvironment struct {
	Environment
	close func(context.Context) error
}

// Close implements Environment.
func (e *limitedEnvironment) Close(ctx context.Context) error {
	return errors.Join(e.Environment.Close(ctx), e.close(ctx))
}

// TestLimitsOfServers runs the scripts that lower limits on a server and on a cluster: over the whole way
// that limits go, from the configuration of the server that leads first through the log to every command.
func TestLimitsOfServers(t *testing.T) {
	testmode.Long(t)
	t.Parallel()
	var scripts []*Script
	for _, script := range loadScripts(t) {
		if slices.Contains(script.Needs, NeedLimits) {
			scripts = append(scripts, script)
		}
	}
	t.Run("server", func(t *testing.T) {
		replayScripts(t,
			&limitedTarget{func(
				ctx context.Context,
				limits coordination.Limits,
			) (string, func(context.Context) error, error) {
				running, err := server.Start(ctx,
					server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true, Limits: limits,
						HoldStartFailureMillis: new(uint64(0))})
				if err != nil {
					return "", nil, err
				}
				return running.Addr().String(), func(ctx context.Context) error { return stop(ctx, running) },
					nil
			}}, scripts)
	})
	t.Run("cluster", func(t *testing.T) {
		replayScripts(t,
			&limitedTarget{func(
				ctx context.Context,
				limits coordination.Limits,
			) (string, func(context.Context) error, error) {
				c := newCluster(t, standin.Slow)
				for i := range c.configs {
					c.configs[i].Limits = limits
				}
				if err := c.start(ctx); err != nil {
					return "", nil, err
				}
				err := c.awaitLimits(ctx)
				follower, none := c.follower(ctx)
				if err = errors.Join(err, none); err != nil {
					return "", nil, errors.Join(err, c.stop(ctx))
				}
				return c.configs[follower].Listen, c.stop, nil
			}}, scripts)
	})
}
