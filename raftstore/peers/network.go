package peers

import (
	"context"
	"crypto/x509"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// Network connects members. GRPC implements it, and tests do in memory. It keeps the order within one stream and
// nothing else: raft sends again what is lost.
type Network interface {
	// Listen begins to hand calls to in. The function returned ends that: it waits for calls under way.
	Listen(in Server) (closeListener func(), err error)
	// Hello asks the server at an address for its identity.
	Hello(ctx context.Context, address string, req *peerpb.HelloRequest) (*peerpb.HelloResponse, error)
	// Messages opens a stream of frames on a connection of its own.
	Messages(ctx context.Context, address string, header *peerpb.Header) (Stream, error)
	// Snapshot sends chunks until next returns io.EOF and waits until the receiver has stored all of them.
	Snapshot(ctx context.Context, address string, header *peerpb.Header, next func() (*peerpb.Chunk, error)) error
}

// Stream is one open stream of frames. Send blocks while the receiver lags; it fails once the stream is broken.
type Stream interface {
	Send(f *peerpb.Frame) error
	// Accepted is closed when the receiver has accepted the sender as a member; some receivers never confirm it.
	Accepted() <-chan struct{}
	// Ended is closed when the stream is broken; Send returns the reason.
	Ended() <-chan struct{}
	// Conn is the connection below, for calls besides; nil in tests.
	Conn() *grpc.ClientConn
	Close()
}

// Server is the receiving end of a network. Any goroutine may call its methods.
type Server interface {
	// Hello and Judge get the certificate of the connection, nil without TLS.
	Hello(req *peerpb.HelloRequest, certificate *x509.Certificate) (*peerpb.HelloResponse, error)
	// Certifies reports whether a certificate is a current member's.
	Certifies(certificate *x509.Certificate) bool
	// Judge returns the reason why a caller is refused, nil if it is admitted. Messages are admitted while this
	// member does not yet take part in anything, but not heard.
	Judge(h *peerpb.Header, certificate *x509.Certificate, messages bool) error
	// Admitted is the list by which Judge decides.
	Admitted() *membership.List
	// Opened reports an admitted stream of messages, and Lost its end.
	Opened(h *peerpb.Header)
	Receive(h *peerpb.Header, f *peerpb.Frame) error
	// ReceiveSnapshot reads chunks until next returns io.EOF.
	ReceiveSnapshot(h *peerpb.Header, next func() (*peerpb.Chunk, error)) error
	Lost(h *peerpb.Header)
}

// Member is the member that a Transport sends for. Any goroutine may call its methods.
type Member interface {
	// Header returns the header for a stream to another member.
	Header(to uint64, urgent bool) *peerpb.Header
	Admitted() *membership.List
	// Unreachable reports that messages to a member were dropped.
	Unreachable(id uint64)
	// Refused reports that a member has refused this one with ErrRemoved or ErrEmptied.
	Refused()
}
