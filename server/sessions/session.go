package sessions

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group/streams"
	"github.com/coordd/coordd/server/inspect"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/meters"
	"github.com/coordd/coordd/server/wire"
)

// Session is the connection of one Session stream. Its handler's goroutine reads; the writers send.
type Session struct {
	Stream   *streams.Stream
	rpc      Ydb_Coordination_V1.CoordinationService_SessionServer
	finish   listen.StatusWriter
	pool     *writers
	panics   *meters.Panics
	meters   *meters.Meters
	identity *auth.Identity
	client   *coordination.Client
	opened   int64 // milliseconds since 1970
	progress progress
	log      *sessionLog
	held     []coordination.Reply // taken, and left to the slow lane
	borrowed bool                 // lent may be more than 0; of the writers

	mutex  sync.Mutex
	lent   int  // bytes that the last large answer has
	closed bool // nothing is left of the call, and nothing is lent any more
}

// serve reads the client's messages until the stream has ended. The status of the RPC is that of the Front's
// ending, written by a writer behind the last reply.
func (s *Session) serve() error {
	defer s.leaveOnPanic()
	ctx := s.rpc.Context()
	s.Stream.Open()
	received := new(wire.ClientMessage)
	message := (*coordination.ClientMessage)(received)
	for {
		*message = coordination.ClientMessage{} // the client may be silent for long
		if err := s.rpc.RecvMsg(received); err != nil {
			s.Stream.Close()
			s.log.end("the client has closed it, or is gone")
			if err == io.EOF { // what is queued is still sent
				<-ctx.Done() // a writer ends the RPC
			}
			return nil
		}
		if message.Kind == coordination.ClientStart {
			name, _ := calls.Database(ctx)
			message.Start.Path = scheme.InDatabase(message.Start.Path, name)
		}
		s.progress.heard(message)
		s.log.heard(message)
		s.Stream.AwaitRoom(ctx, message)
		resume := s.Stream.Receive(message)
		if resume == nil {
			continue
		}
		select {
		case <-resume:
		case <-ctx.Done():
		}
	}
}

// leaveOnPanic takes a stream out of service whose handler panics.
func (s *Session) leaveOnPanic() {
	if reason := recover(); reason != nil {
		s.Stream.Abandon()
		panic(reason)
	}
}

// Wake implements group.Client.
func (s *Session) Wake() { s.pool.schedule(s) }

// CutOff implements group.Client: it ends the RPC of a client that does not read. The reader notices, and the
// session is detached.
func (s *Session) CutOff() {
	s.log.end("the client does not read it")
	go s.finish.WriteStatus(status.New(codes.ResourceExhausted, "The client does not read its stream"))
}

// Panicked implements group.Client.
func (s *Session) Panicked(reason any) {
	s.panics.Note("a stream", reason)
	go s.finish.WriteStatus(meters.PanicStatus)
}

// hasRoom reports whether a small message can be sent without waiting for the client.
func (s *Session) hasRoom() bool { return s.progress.unread() < sendRoom }

// sendPromptly is send as long as the client has room; the slow lane does the rest.
func (s *Session) sendPromptly(buffer []coordination.Reply) (_ []coordination.Reply, more bool) {
	return s.send(buffer, true)
}

// sendSlowly is send, however long the client takes.
func (s *Session) sendSlowly(buffer []coordination.Reply) (_ []coordination.Reply, more bool) {
	return s.send(buffer, false)
}

// send writes what is queued, and ends the RPC if the Front has ended. It reports whether there may be more.
// If it is to be prompt, it leaves to the slow lane what may have to wait for the client.
func (s *Session) send(buffer []coordination.Reply, prompt bool) (_ []coordination.Reply, more bool) {
	defer func() {
		if reason := recover(); reason != nil {
			s.Panicked(reason)
		}
	}()
	replies, ending, fresh := s.held, coordination.EndingNone, len(s.held) == 0
	if s.held = nil; fresh {
		replies, ending = s.Stream.Take(buffer[:0])
	}
	for i := range replies {
		if replies[i].Kind == coordination.ReplyNone {
			continue
		}
		if (i > 0 || !fresh) && s.Stream.PutBack(replies[i:]) {
			return replies, false
		}
		size := sizeOf(&replies[i])
		if prompt && s.progress.unread()+size > sendRoom { // or what is long in encoding
			s.held = slices.Clone(replies[i:])
			s.pool.slow.schedule(s)
			return replies, false
		}
		s.progress.sending(&replies[i], size)
		s.log.replied(&replies[i])
		s.meters.Reply(&replies[i])
		if err := s.write(&replies[i], size); err != nil {
			return replies, false // the reader notices as well
		}
		s.Stream.Sent(&replies[i])
		replies[i] = coordination.Reply{}
	}
	if ending != coordination.EndingNone {
		end := endStatus(ending)
		s.log.end(end.Code().String() + " " + end.Message())
		_ = s.finish.WriteStatus(end)
		return replies, false
	}
	return replies, len(replies) > 0
}

func (s *Session) write(r *coordination.Reply, size int64) error {
	if size > sendRoom && r.Description != nil {
		return s.writeLarge(r)
	}
	err := s.rpc.SendMsg((*wire.Reply)(r))
	if s.borrowed { // gRPC has taken this one, so the one before has left
		s.lend(0)
	}
	if r.Description != nil { // what is encoded is gRPC's, and little
		s.Stream.Gone(r.Description)
	}
	return err
}

// writeLarge writes an answer that is long in encoding. Its data is not copied, and of the rest there is not
// too much for all streams together, and few are encoded at a time: the slow lane has as many writers as
// clients make it have, and they must take neither the memory nor the processor from those who serve the
// others.
func (s *Session) writeLarge(r *coordination.Reply) error {
	ctx, lent := s.rpc.Context(), 0
	if own := wire.Own(r.Description); own > sendRoom {
		lent = min((own+lentUnitBytes-1)/lentUnitBytes*lentUnitBytes, MostLentBytes)
		if !s.pool.lending.Acquire(ctx, lent) {
			return ctx.Err()
		}
	}
	if !s.pool.encoding.Acquire(ctx, 1) {
		s.pool.lending.Release(lent)
		return ctx.Err()
	}
	encoded, err := wire.ToClientShared(r)
	s.pool.encoding.Release(1)
	if err == nil {
		description := r.Description
		encoded.OnGone(func() { s.Stream.Gone(description) })
		err = s.rpc.SendMsg(encoded)
	}
	if lent > 0 || s.borrowed {
		s.lend(lent)
	}
	return err
}

// lend notes what the answer has that was sent last, and gives back what the one before had. A writer calls
// it.
func (s *Session) lend(bytes int) {
	s.borrowed = bytes > 0
	s.giveBack(bytes)
}

func (s *Session) giveBack(bytes int) {
	s.mutex.Lock()
	before := s.lent
	if s.lent = bytes; s.closed {
		before, s.lent = before+bytes, 0
	}
	s.mutex.Unlock()
	s.pool.lending.Release(before)
}

// mayLieUnread bounds gRPC's memory for messages that the client has not read, besides the reserved memory: as much as
// gRPC takes without waiting, and a message more.
func (s *Session) mayLieUnread() int { return int(min(s.progress.unread(), 2*sendRoom)) }

// close gives back what the stream was lent. It is called when nothing is left of the call.
func (s *Session) close() {
	s.mutex.Lock()
	s.closed = true
	s.mutex.Unlock()
	s.giveBack(0)
	s.Stream.AllGone()
}

// endStatus is the gRPC status of an ending (coordination.md §2.9).
func endStatus(ending coordination.Ending) *status.Status {
	switch ending {
	case coordination.EndingInvalidStart:
		return status.New(codes.InvalidArgument, "First message must be a SessionStart")
	case coordination.EndingStartOverdue:
		return status.New(codes.DeadlineExceeded, "First message did not come in time")
	case coordination.EndingAbandoned:
		return status.New(codes.Canceled, "Request abandoned")
	case coordination.EndingSilent:
		return status.New(codes.Unavailable, coordination.LinkFailure.Text)
	}
	return status.New(codes.OK, "")
}

// Connection implements inspect.Connection.
func (s *Session) Connection() *adminpb.SessionClient {
	return &adminpb.SessionClient{Address: s.client.Peer, Sdk: inspect.Shown(sdkOf(s.rpc.Context())),
		User: userOf(s.identity), SinceMillis: uint64(s.opened)}
}

// sdkOf returns how an SDK names itself, empty if it does not.
func sdkOf(ctx context.Context) (name string) {
	for _, info := range metadata.ValueFromIncomingContext(ctx, "x-ydb-sdk-build-info") {
		name = info
	}
	return name
}

// userOf names a user, or the administrator by the socket.
func userOf(id *auth.Identity) string {
	if id == auth.LocalAdministrator {
		return id.String()
	}
	return id.Name
}

// clientOf describes the client of a call.
func clientOf(ctx context.Context) *coordination.Client {
	address := ""
	if p, ok := peer.FromContext(ctx); ok {
		address = p.Addr.String()
	}
	if auth.FromSocket(ctx) || address == "" {
		address = auth.SourceOf(ctx)
	}
	return &coordination.Client{Peer: lograte.Printable(address, coordination.MaxClientPeerBytes),
		Library: lograte.Printable(sdkOf(ctx), coordination.MaxClientLibraryBytes),
		User:    lograte.Printable(userOf(auth.Of(ctx)), coordination.MaxClientUserBytes)}
}
