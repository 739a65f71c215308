package conformance

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/conformance/rings"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/wire"
)

// Pure runs scripts on the rings in memory, with a fake clock. Each script has a world of its own.
type Pure struct {
	// Stored passes everything that a server stores through its stored format: commands, and the rows of
	// checkpoints. Every restart then goes through a checkpoint.
	Stored bool
	// FailOver changes the leader after every step, and during every unary call, while the streams go on. A
	// client notices nothing but one Changed(false, false) for each of its watches, on which it describes
	// again: that is done for the script.
	FailOver bool
	// Batches has entries of the log with several commands, of random sizes.
	Batches bool
}

const (
	pureDatabase  = "/local"
	pureDirectory = "/local/script"
)

// Offers implements Target.
func (p *Pure) Offers(need Need) bool {
	switch need {
	case NeedSameLeader:
		return !p.FailOver
	case NeedClock, NeedRestart, NeedHold, NeedLimits, NeedServers, NeedUsers, NeedOpen:
		return true
	}
	return false
}

// Open implements Target.
func (p *Pure) Open(ctx context.Context, _ string, limits coordination.Limits) (Environment, error) {
	options := rings.Options{Database: pureDatabase, Limits: limits, Check: true}
	if p.Stored {
		options.Reencode = reencode
	}
	if p.Batches {
		random := rand.New(rand.NewPCG(1, 2))
		options.Batch = func(n int) int { return 1 + random.IntN(n) }
	}
	world, err := rings.New(options)
	if err != nil {
		return nil, err
	}
	env := &pureEnvironment{pure: p, world: world, limits: limits, servers: make(map[string]uint64)}
	operation, err := env.Call(ctx, makeDirectory(pureDirectory), new(pureDatabase))
	return env, succeeded(operation, err)
}

// reencode is an entry as it comes out of the log.
func reencode(e coordination.Entry) coordination.Entry {
	var stored []byte
	for i, c := range e.Commands {
		if i == 0 {
			stored = codec.BeginEntry(nil, e.StampMillis)
		}
		stored = codec.AppendToEntry(stored, c)
	}
	if len(stored) > 0 {
		stored = codec.EndEntry(stored, e.ServedMillis, e.Versions)
	}
	back := coordination.Entry{Index: e.Index, Term: e.Term}
	if err := codec.DecodeEntry(stored, &back); err != nil {
		panic(fmt.Sprintf("%#v: %v", e, err))
	}
	return back
}

type pureEnvironment struct {
	pure    *Pure
	world   *rings.World
	limits  coordination.Limits
	servers map[string]uint64
	streams []*pureStream
	events  []Event
	calls   int // made so far, with Pure.FailOver
}

func (e *pureEnvironment) Database() string            { return pureDatabase }
func (e *pureEnvironment) Directory() string           { return pureDirectory }
func (e *pureEnvironment) Patience() time.Duration     { return 0 }
func (e *pureEnvironment) Hold()                       { e.world.Hold() }
func (e *pureEnvironment) Release()                    { e.world.Release() }
func (e *pureEnvironment) Close(context.Context) error { return nil }

// Restart implements Environment.
func (e *pureEnvironment) Restart(context.Context) error {
	if e.pure.Stored {
		return e.world.Reload()
	}
	e.world.Restart()
	return nil
}

// Check reads all rows of the machine back into a new one, which must be the same. It is the moment between
// two steps, at which the leader may change.
func (e *pureEnvironment) Check(context.Context) (disturbed bool, err error) {
	if e.pure.FailOver {
		if err := e.failOver(); err != nil {
			return true, err
		}
	}
	return e.pure.FailOver, e.checkRows()
}

func (e *pureEnvironment) checkRows() error {
	restorer, err := coordination.NewRestorer(pureDatabase, e.limits)
	if err != nil {
		return err
	}
	for _, row := range e.world.Machine().AllRows() {
		if e.pure.Stored {
			key, value, _ := codec.EncodeRow(row)
			if row, err = codec.DecodeRow(key, value); err != nil {
				return err
			}
		}
		if err := restorer.Add(row); err != nil {
			return err
		}
	}
	restored, err := restorer.Finish()
	if err != nil {
		return err
	}
	if before, after := e.world.Machine().Digest(), restored.Digest(); before != after {
		return fmt.Errorf("the digest is %016x, after a checkpoint %016x", before, after)
	}
	return nil
}

// Pass implements Environment.
func (e *pureEnvironment) Pass(_ context.Context, most time.Duration) time.Duration {
	e.world.Advance(0)
	if due := time.Duration(e.world.NextWake()) - e.world.Now(); due < most {
		most = due
	}
	e.world.Advance(most)
	return most
}

// Next implements Environment.
func (e *pureEnvironment) Next(context.Context) (Event, bool) {
	if len(e.events) == 0 {
		e.world.Advance(0)
		for _, s := range e.streams {
			s.collect()
		}
	}
	if len(e.events) == 0 {
		return Event{}, false
	}
	event := e.events[0]
	e.events = e.events[1:]
	return event, true
}

// Connect implements Environment.
func (e *pureEnvironment) Connect(_ context.Context, options StreamOptions) (Stream, error) {
	server, known := e.servers[options.Server]
	if !known {
		server = uint64(len(e.servers) + 1)
		e.servers[options.Server] = server
	}
	s := &pureStream{env: e, stream: e.world.Open(server), caller: pureCaller(options.User),
		rearmed: make(map[uint64]int)}
	e.streams = append(e.streams, s)
	return s, nil
}

// pureStream is a stream of the world with a client's side that speaks protobuf.
type pureStream struct {
	env    *pureEnvironment
	stream *rings.Stream
	caller coordination.Caller
	unread []coordination.ClientMessage // behind a start that is not answered yet
	closed bool                         // after unread
	ended  bool

	// describes that may still be notified of a change; kept only with Pure.FailOver
	watches []coordination.ClientMessage
	rearmed map[uint64]int // describes repeated for the script and not answered yet, by request
}

// Send implements Stream.
func (s *pureStream) Send(message []byte) error {
	request := &Ydb_Coordination.SessionRequest{}
	if err := proto.Unmarshal(message, request); err != nil {
		return err
	}
	m := wire.FromClient(request)
	if m.Start != nil {
		m.Start.Path = scheme.InDatabase(m.Start.Path, pureDatabase)
		m.Start.Caller = s.caller
		m.Start.Identity = coordination.Identity{Kind: coordination.IdentityToken,
			Subject: cmp.Or(s.caller.Subject, scheme.RootOwner)}
	}
	s.unread = append(s.unread, m)
	s.read()
	return nil
}

// read hands over what the server would read now.
func (s *pureStream) read() {
	for len(s.unread) > 0 && !s.stream.Attaching() {
		m := s.unread[0]
		s.unread = s.unread[1:]
		s.note(m)
		s.stream.Send(m)
		s.collect()
	}
	if s.closed && len(s.unread) == 0 && !s.stream.Attaching() {
		s.closed = false
		s.stream.Close()
		s.collect()
	}
}

// CloseSend implements Stream. Like every message it is noticed only once the start is answered (§2.9).
func (s *pureStream) CloseSend() error {
	s.closed = true
	s.read()
	return nil
}

// Cancel implements Stream. It is noticed at once, even while the start is not answered.
func (s *pureStream) Cancel() {
	s.unread, s.closed = nil, false
	s.stream.Close()
}

// It turns a reply into an event.
func (s *pureStream) tell(reply *coordination.Reply) {
	if reply.Kind != coordination.ReplyNone && !s.isRearmed(reply) {
		s.env.events = append(s.env.events, Event{Stream: s, Message: wire.ToClient(reply)})
	}
}

// collect turns what the stream has to say into events.
func (s *pureStream) collect() {
	for _, reply := range s.stream.Replies() {
		s.tell(&reply)
	}
	if ending := s.stream.Ending(); ending != coordination.EndingNone && !s.ended {
		s.ended = true
		s.env.events = append(s.env.events, Event{Stream: s, Status: endStatus(ending)})
	}
	if !s.ended && (len(s.unread) > 0 || s.closed) {
		s.read()
	}
}

// endStatus is the gRPC status of an ending (§2.9).
func endStatus(ending coordination.Ending) *status.Status {
	switch ending {
	case coordination.EndingInvalidStart:
		return status.New(codes.InvalidArgument, "First message must be a SessionStart")
	case coordination.EndingAbandoned:
		return status.New(codes.Canceled, "Request abandoned")
	}
	return status.New(codes.OK, "")
}
