package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/lograte"
)

// panicCounter answers calls whose code panics with INTERNAL and counts them. The text of a panic goes to the
// log only: it may hold what is none of the client's business.
type panicCounter struct {
	count  atomic.Uint64
	logger *slog.Logger
	told   lograte.ByKey // by where it was: a client that can cause one can cause many
}

var errPanic = status.New(codes.Internal, "Internal error")

// note counts and logs a panic that has been recovered.
func (p *panicCounter) note(where string, reason any) {
	p.count.Add(1)
	if ok, hidden := p.told.Allow(where, time.Now()); ok {
		p.logger.Error("recovered from a panic", "in", where, "reason", fmt.Sprint(reason), "stack",
			string(debug.Stack()), lograte.Suppressed, hidden)
	}
}

// guard is deferred: it makes a panic the error of a call.
func (p *panicCounter) guard(method string, err *error) {
	if reason := recover(); reason != nil {
		p.note(method, reason)
		*err = errPanic.Err()
	}
}

func (p *panicCounter) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.note(info.FullMethod, reason)
			err = errPanic.Err()
		}
	}()
	return handler(ctx, request)
}

func (p *panicCounter) stream(service any, rpc grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.note(info.FullMethod, reason)
			err = errPanic.Err()
		}
	}()
	return handler(service, rpc)
}
