package raftstore

import (
	"context"
	"crypto/x509"
	"errors"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// network is how members reach each other. gRPC implements it, and tests do in memory. Nothing is promised
// but order within one stream: what is lost raft sends again.
type network interface {
	// listen begins to hand calls to in. The function returned ends that: it waits for calls under way.
	listen(in peerServer) (closeListener func(), err error)
	// hello asks the server at an address who it is.
	hello(ctx context.Context, address string, req *peerpb.HelloRequest) (*peerpb.HelloResponse, error)
	// messages opens a stream of frames, the first with the header. Urgent streams have a connection of their
	// own.
	messages(ctx context.Context, address string, header *peerpb.Header) (frameStream, error)
	// snapshot sends chunks until next returns io.EOF and waits until the receiver has stored all of them.
	snapshot(ctx context.Context, address string, next func() (*peerpb.Chunk, error)) error
	// close gives up all connections that were opened.
	close()
}

// frameStream is one open stream. send blocks while the receiver is behind; it fails once the stream is
// broken.
type frameStream interface {
	send(f *peerpb.Frame) error
	// accepted is closed when the receiver has said that it takes the sender for a member; some never say so.
	accepted() <-chan struct{}
	// ended is closed when the stream is broken; send says why.
	ended() <-chan struct{}
	close()
}

// peerServer is the receiving end of a network. Its methods may be called from many goroutines.
type peerServer interface {
	// Each gets the certificate of the connection, nil if there is none.
	answerHello(req *peerpb.HelloRequest, certificate *x509.Certificate) (*peerpb.HelloResponse, error)
	// mayCall judges whether a certificate belongs to a current member; the answer is another one only once
	// admitted is.
	mayCall(certificate *x509.Certificate) error
	admitted() *membership.List
	// accept judges the header of a stream.
	accept(h *peerpb.Header, certificate *x509.Certificate) error
	receive(h *peerpb.Header, f *peerpb.Frame) error
	// receiveSnapshot takes chunks until next returns io.EOF.
	receiveSnapshot(certificate *x509.Certificate, next func() (*peerpb.Chunk, error)) error
	// lost says that an accepted stream of messages has ended.
	lost(h *peerpb.Header)
}

// Refusals that one member gives another. They cross the network as such.
var (
	// ErrRemoved says that this member was removed from its cluster. Its id never comes back: the directory
	// can only be emptied, and the server added again as a new member.
	ErrRemoved = errors.New("this member was removed from the cluster")
	// ErrEmptied says that the cluster knows this member with another data directory, so this one was emptied
	// or replaced. What it promised is lost: remove the member and add it again.
	ErrEmptied = errors.New("the cluster knows this member with an earlier data directory")
	// ErrOtherCluster says that the server at an address belongs to another cluster or is another member.
	ErrOtherCluster = errors.New("the server belongs to another cluster or is another member")
)
