package hooks

import (
	"net"

	"google.golang.org/grpc"
)

// Faults stand between a server and its clients, and make things go wrong on demand. Their methods are called once, when
// the server starts.
type Faults interface {
	// Listen is a listener for clients whose connections can be lost.
	Listen(net.Listener) net.Listener
	// Stream and Call come behind everything else that is done to calls, so that they meet only what is let in.
	Stream() grpc.StreamServerInterceptor
	Call() grpc.UnaryServerInterceptor
}
