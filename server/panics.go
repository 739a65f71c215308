package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
)

// panicCounter answers calls whose code panics with INTERNAL and counts them. The text of a panic goes to the log only:
// it may hold what is none of the client's business.
type panicCounter struct {
	count  atomic.Uint64
	logger *slog.Logger
}

var errPanic = status.New(codes.Internal, "Internal error")

// note counts and logs a panic that has been recovered.
func (p *panicCounter) note(where string, reason any) {
	p.count.Add(1)
	p.logger.Error("recovered from a panic", "in", where, "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
}

func (p *panicCounter) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.note(info.FullMethod, reason)
			err = errPanic.Err()
		}
	}()
	return handler(ctx, request)
}

func (p *panicCounter) stream(service any, rpc grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.note(info.FullMethod, reason)
			err = errPanic.Err()
		}
	}()
	return handler(service, rpc)
}

// leaveOnPanic takes a stream out of service whose handler panics. Its Front cannot be trusted any more.
func (s *sessionStream) leaveOnPanic() {
	reason := recover()
	if reason == nil {
		return
	}
	s.mutex.Lock()
	s.front = coordination.NewFront(&coordination.PingPolicy{})
	s.front.Close()
	s.forward(coordination.Forward{Detach: true})
	s.mutex.Unlock()
	s.group.queue.signal()
	s.stopTimers()
	panic(reason)
}

// endOnPanic ends a stream whose code panics in a goroutine that serves others as well.
func (s *sessionStream) endOnPanic() {
	if reason := recover(); reason != nil {
		s.panics.note("a stream", reason)
		go s.finish.WriteStatus(errPanic)
	}
}

// InvariantError is a panic of the group. The state in memory cannot be trusted any more, so the server
// stops; nothing that was acknowledged is lost.
type InvariantError struct {
	// Reason is what the code panicked with.
	Reason string
	// Stack is where.
	Stack string
}

// Error is the reason, without the stack.
func (e *InvariantError) Error() string { return "broken invariant: " + e.Reason }

// failOnPanic makes a panic within a turn the reason for which the server ends. The turn is held.
func (g *group) failOnPanic() {
	if reason := recover(); reason != nil {
		err := &InvariantError{Reason: fmt.Sprint(reason), Stack: string(debug.Stack())}
		g.logger.Error("the group cannot go on", "error", err, "stack", err.Stack)
		g.close()
		g.failed(err)
	}
}
