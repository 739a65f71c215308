package hooks

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
)

// Faults stand between a server and its clients, and make things go wrong on demand. Their methods are called
// once, when the server starts.
type Faults interface {
	// Listen is a listener for clients whose connections can be lost.
	Listen(net.Listener) net.Listener
	// Stream and Call come behind everything else that is done to calls, so that they meet only what is let
	// in.
	Stream() grpc.StreamServerInterceptor
	Call() grpc.UnaryServerInterceptor
	// Serve hands over the server's Control before its first client comes.
	Serve(Control)
}

// ErrMissing is wrapped by errors about something that does not exist; their texts name it before.
var ErrMissing = errors.New("does not exist")

// Control has the faults of a server besides those of its clients.
type Control interface {
	// Leads reports whether this server leads.
	Leads() bool
	// LoseLeader has the server that leads lead no more: one of several hands over, one alone pauses for d of
	// the rings' clock.
	LoseLeader(ctx context.Context, d time.Duration) error
	// ExpireSession ends a session as if its time had run out. Its client is notified.
	ExpireSession(ctx context.Context, node string, session uint64) error
	// DropNode drops a coordination node, whatever its permissions are.
	DropNode(ctx context.Context, node string) error
}
