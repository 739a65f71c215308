package server

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// waitMax bounds every wait of a test for a state; only a failing test uses it up.
const waitMax = 2 * time.Minute

// eventually waits for a state that nobody announces. It looks the more rarely the longer it waits: under the
// race detector, looking takes the tests beside it a twentieth of a processor if it is done every
// millisecond.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for begun := time.Now(); !reached(); time.Sleep(pause(time.Since(begun))) {
		if time.Since(begun) > waitMax {
			t.Fatal("waited in vain for ", what)
		}
	}
}

// pause returns the time before the next look for a state, after so long a wait.
func pause(waited time.Duration) time.Duration {
	return min(max(waited/16, time.Millisecond), 20*time.Millisecond)
}

// callMax limits a test's call or stream. A longer one is cancelled, so that the test fails where it waits, by name: a
// package that takes too long ends with a list of all its goroutines.
const callMax = 5 * waitMax

// ending are options of a client's connection that cancel its calls and streams after callMax. They set no deadline:
// the server would answer in time for it.
func ending() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any,
			conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer time.AfterFunc(callMax, cancel).Stop()
			return invoke(ctx, method, request, reply, conn, options...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn,
			method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
			ctx, cancel := context.WithCancel(ctx)
			over := time.AfterFunc(callMax, cancel)
			stream, err := open(ctx, desc, conn, method, options...)
			if err != nil {
				over.Stop()
				cancel()
				return nil, err
			}
			context.AfterFunc(stream.Context(), func() {
				over.Stop()
				cancel()
			})
			return stream, nil
		}),
	}
}

// breather is the pause between two calls of a client that keeps calls under way during an event: without it, it takes
// a processor for as long as the test lasts, to no effect.
const breather = 5 * time.Millisecond

func (c *testCluster) eventually(what string, reached func() bool) {
	c.t.Helper()
	eventually(c.t, what, reached)
}

// beside are the tests that have called runBeside.
var beside sync.Map

// runBeside lets a test run beside others, however often it is called. Tests with clusters mostly wait for
// elections.
func runBeside(t *testing.T) {
	if _, again := beside.LoadOrStore(t, true); !again {
		t.Cleanup(func() { beside.Delete(t) })
		t.Parallel()
	}
}
