package faults

import (
	"context"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/status"
)

// Tap sees everything that passes on a stand-in, as a recorder wants to. It sees neither what faults refuse
// nor what they answer, and no headers.
type Tap interface {
	// Open is called when a client has opened a Session stream.
	Open(Injector) StreamTap
	// Call is called before a call is executed, and what it returns behind that; it may wait.
	Call(ctx context.Context, method string, request any) (done func(response any, err error))
}

// StreamTap sees one stream. None of its methods may wait.
type StreamTap interface {
	// Request is called with what the client asks for; the server gets it when deliver is called, and what
	// the same client asks for next comes behind that. Pings and pongs do not come here.
	Request(m *Ydb_Coordination.SessionRequest, deliver func())
	// Gone is called when the client has closed its side, or has gone altogether; the server hears of it when
	// deliver is called.
	Gone(closed bool, deliver func())
	// Reply is called before the client gets a message, and reports whether it is to.
	Reply(*Ydb_Coordination.SessionResponse) (pass bool)
	// Ended is called when the server ends the stream.
	Ended(*status.Status)
	// Close is called when the server is done with the stream, however it has ended.
	Close()
}

// Injector brings requests to the server that the client has not made. It is for the tap to keep the answers
// from the client.
type Injector interface {
	Inject(*Ydb_Coordination.SessionRequest)
}

// SetTap has a tap see the streams that are opened from now on, and the calls; nil: nobody does.
func (s *Set) SetTap(t Tap) {
	if t == nil {
		s.tap.Store(nil)
		return
	}
	s.tap.Store(&t)
}
