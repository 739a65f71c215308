package meters

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

// Panics answers calls whose code panics with INTERNAL and counts them. The text of a panic goes to the
// log only: it may hold data of others.
type Panics struct {
	Logger *slog.Logger // set before the first call
	count  atomic.Uint64
	told   lograte.ByKey // by where it was: a client that can cause one can cause many
}

// PanicStatus is the answer to a call that has panicked.
var PanicStatus = status.New(codes.Internal, "Internal error")

// Count returns how many panics were recovered from.
func (p *Panics) Count() uint64 { return p.count.Load() }

// Note counts and logs a panic that has been recovered.
func (p *Panics) Note(where string, reason any) {
	p.count.Add(1)
	if ok, hidden := p.told.Allow(where, time.Now()); ok {
		p.Logger.Error("recovered from a panic", "in", where, "reason", fmt.Sprint(reason), "stack",
			string(debug.Stack()), lograte.Suppressed, hidden)
	}
}

// Guard is deferred: it makes a panic the error of a call.
func (p *Panics) Guard(method string, err *error) {
	if reason := recover(); reason != nil {
		p.Note(method, reason)
		*err = PanicStatus.Err()
	}
}

// Unary guards calls with one request.
func (p *Panics) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (_ any, err error) {
	defer p.Guard(info.FullMethod, &err)
	return handler(ctx, request)
}

// Stream guards streams.
func (p *Panics) Stream(service any, rpc grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	defer p.Guard(info.FullMethod, &err)
	return handler(service, rpc)
}
