package compat_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
	"github.com/ydb-platform/ydb-go-sdk/v3/trace"
)

// testNode is the coordination node that tests use when one is enough.
const testNode = "/local/compat/node"

// client is one SDK driver with its own connections.
type client struct {
	*ydb.Driver
	t    *testing.T
	seen *record
}

// record keeps what the SDK does not return to its callers.
type record struct {
	mu         sync.Mutex
	attached   map[uint64]int // how often each session was started or restored
	failures   []*Ydb_Coordination.SessionResponse_Failure
	unexpected []*Ydb_Coordination.SessionResponse
	unsent     int // SessionStarts that the SDK could not send, after which it gives up their sessions
}

// open connects the SDK. Any message that the SDK cannot assign to a request fails the test: the SDK answers
// such a message by throwing its stream away.
func open(t *testing.T, dsn string, opts ...ydb.Option) *client {
	t.Helper()
	seen := &record{attached: map[uint64]int{}}
	db, err := ydb.Open(testContext(t), dsn, append(opts, ydb.WithTraceCoordination(seen.trace()))...)
	if err != nil {
		t.Fatalf("open %s: %v", dsn, err)
	}
	t.Cleanup(func() {
		// Shorter than patience: a test whose server is gone for good closes its sessions in vain.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = db.Close(ctx)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for _, message := range seen.unexpected {
			t.Errorf("message that answers no request of the SDK: %v", message)
		}
	})
	return &client{Driver: db, t: t, seen: seen}
}

func (r *record) trace() trace.Coordination {
	failure := func(f *Ydb_Coordination.SessionResponse_Failure) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failures = append(r.failures, f)
	}
	return trace.Coordination{
		OnSessionStarted: func(info trace.CoordinationSessionStartedInfo) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.attached[info.SessionID]++
		},
		OnSessionStart: func(
			trace.CoordinationSessionStartStartInfo) func(trace.CoordinationSessionStartDoneInfo) {
			return func(info trace.CoordinationSessionStartDoneInfo) {
				r.mu.Lock()
				defer r.mu.Unlock()
				if info.Error != nil {
					r.unsent++
				}
			}
		},
		OnSessionServerExpire: func(info trace.CoordinationSessionServerExpireInfo) { failure(info.Failure) },
		OnSessionServerError:  func(info trace.CoordinationSessionServerErrorInfo) { failure(info.Failure) },
		OnSessionReceiveUnexpected: func(info trace.CoordinationSessionReceiveUnexpectedInfo) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.unexpected = append(r.unexpected, info.Response)
		},
	}
}

// attachments counts how often the session was started or restored.
func (r *record) attachments(session uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attached[session]
}

// startsUnsent counts the sessions that the SDK may have given up because their SessionStart could not be sent.
func (r *record) startsUnsent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsent
}

// failure says whether the server ended a stream with this status and text.
func (r *record) failure(status fmt.Stringer, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.failures {
		if f.GetStatus().String() == status.String() && len(f.GetIssues()) == 1 &&
			f.GetIssues()[0].GetMessage() == text {
			return true
		}
	}
	return false
}

// createNode makes the coordination node testNode with default settings.
func (c *client) createNode() {
	c.t.Helper()
	if err := c.Coordination().CreateNode(testContext(c.t), testNode, coordination.NodeConfig{}); err != nil {
		c.t.Fatalf("create node: %v", err)
	}
}

// session starts a session on testNode; it is closed with the client at the latest.
func (c *client) session(opts ...options.SessionOption) coordination.Session {
	c.t.Helper()
	s, err := c.Coordination().Session(testContext(c.t), testNode, opts...)
	if err != nil {
		c.t.Fatalf("start session: %v", err)
	}
	return s
}

// sessionAfterALoss starts a session while the SDK may still take a server for alive that is not. Where it
// opens a stream just before the connection breaks and cannot send the SessionStart, it forgets the session,
// and Session waits until its context is done: so a program gives it a short one, and tries again.
func (c *client) sessionAfterALoss(opts ...options.SessionOption) coordination.Session {
	c.t.Helper()
	ctx := testContext(c.t)
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := c.Coordination().Session(try, testNode, opts...)
		cancel()
		if err == nil {
			return s
		}
		if ctx.Err() != nil {
			c.t.Fatalf("start session: %v", err)
		}
	}
}

// newNode is the beginning of most tests: a server, a client and an empty coordination node.
func newNode(t *testing.T) *client {
	t.Helper()
	t.Parallel()
	c := open(t, startServer(t).Endpoint())
	c.createNode()
	return c
}

// testContext ends with the test or when patience is used up.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("not reached")
	}
}
