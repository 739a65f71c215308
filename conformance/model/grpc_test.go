package model

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/server"
)

var (
	grpcSeqs  = flag.Int("grpc-seqs", 12, "how many random sequences to compare over gRPC")
	grpcSteps = flag.Int("grpc-steps", 200, "how many steps each sequence over gRPC has")
)

// TestModelOverGRPC gives random sequences to a real server and to the model. Time is real, so the steps are
// those in which nothing waits for it; the others stay on the pure level. -seed is that of TestModel.
func TestModelOverGRPC(t *testing.T) {
	compared := 0
	for i := range *grpcSeqs {
		from := *seed + uint64(i)
		var trace strings.Builder
		messages, err := sequenceOverGRPC(t, from, &trace)
		if err != nil {
			t.Fatalf("seed %d (run again with -seed %d -grpc-seqs 1): %v\n%s", from, from, err,
				trace.String())
		}
		compared += messages
	}
	t.Logf("%d messages of %d sequences of %d steps from seed %d", compared, *grpcSeqs, *grpcSteps, *seed)
	if least := *grpcSeqs * *grpcSteps / 4; compared < least {
		t.Errorf("the server sent %d messages; the sequences are worth little with less than %d", compared,
			least)
	}
}

// grpcPatience bounds the wait for a message that should come.
const grpcPatience = 2 * time.Minute

// overGRPC is one sequence on the model and on a server.
type overGRPC struct {
	run     // without rings
	nodes   Ydb_Coordination_V1.CoordinationServiceClient
	ctx     context.Context
	streams map[*pair]*remoteStream

	compared int // messages
}

// sequenceOverGRPC runs one sequence and returns how many messages were compared.
func sequenceOverGRPC(t *testing.T, from uint64, trace *strings.Builder) (compared int, err error) {
	t.Helper()
	g := newGenerator(from)
	g.limits.State, g.limits.Quota = 0, 0 // a server has rows of its own
	s, err := server.Start(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local",
		InMemory: true, Limits: g.limits.ofServer(),
		HoldStartFailureMillis: new(uint64(0))})
	if err != nil {
		return 0, err
	}
	conns, err := raw.Dial(s.Addr().String(), 1)
	if err != nil {
		return 0, errors.Join(err, s.Stop(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		raw.Close(conns)
		ending, done := context.WithTimeout(context.Background(), grpcPatience)
		defer done()
		err = errors.Join(err, s.Stop(ending))
	}()
	r := &overGRPC{run: run{model: New(nodePath, g.limits, nil), names: g.names, trace: trace},
		nodes: Ydb_Coordination_V1.NewCoordinationServiceClient(conns[0]), ctx: ctx,
		streams: make(map[*pair]*remoteStream)}
	for i := range g.keys {
		r.slots = append(r.slots, &slot{ownKey: g.keys[i]})
	}
	next := g.first
	for done := 0; done < *grpcSteps; next = g.next(&r.run) {
		if !timeless(&next) {
			continue
		}
		done++
		r.note("%s\n", next)
		if err := r.carryOutRemotely(next); err != nil {
			return r.compared, err
		}
	}
	return r.compared, nil
}

// timeless makes a step independent of time, and reports whether that is possible.
func timeless(s *step) bool {
	const longMillis = 600_000 // longer than any sequence takes
	s.server = 1
	switch s.op {
	case opAdvance, opDeadline, opMute, opHold, opRelease, opRestart, opReload, opHand, opEcho, opPong,
		opSet: // which is no message of the protocol
		return false
	case opStart:
		if s.request.TimeoutMillis < longMillis {
			s.request.TimeoutMillis += longMillis
		}
	case opSend:
		if wait := s.request.TimeoutMillis; s.request.Kind == Acquire && wait != 0 && wait < longMillis {
			s.request.TimeoutMillis += longMillis
		}
		if s.request.Kind == Start {
			s.request.TimeoutMillis += longMillis
		}
	}
	return true
}

func (r *overGRPC) carryOutRemotely(s step) error {
	var c *slot
	if s.slot < len(r.slots) {
		c = r.slots[s.slot]
	}
	var err error
	switch s.op {
	case opStart:
		request, key := r.startRequest(c, s)
		p, openErr := r.openRemotely(c)
		if openErr != nil {
			return openErr
		}
		p.start = request
		if request.Session != 0 {
			p.start.ProtectionKey = key
		}
		err = r.sendBoth(p, request)
	case opFirst, opCloseOnly:
		p, openErr := r.openRemotely(c)
		if openErr != nil {
			return openErr
		}
		if s.op == opFirst {
			err = r.sendBoth(p, s.request)
		} else {
			err = r.closeBoth(p)
		}
	case opSend:
		if c.current != nil && c.current.model.Ending() == Open {
			err = r.sendBoth(c.current, s.request)
		}
	case opClose:
		if c.current != nil && c.current.model.Ending() == Open {
			err = r.closeBoth(c.current)
		}
	default:
		err = r.callBoth(s)
	}
	return errors.Join(err, r.compareAll())
}

func (r *overGRPC) openRemotely(c *slot) (*pair, error) {
	rpc, err := r.nodes.Session(r.ctx)
	if err != nil {
		return nil, err
	}
	r.opened++
	p := &pair{number: r.opened, slot: c, model: r.model.Open(1)}
	remote := &remoteStream{rpc: rpc, events: make(chan remoteEvent, 1024)}
	go remote.read(r.ctx)
	c.current, r.streams[p] = p, remote
	r.pairs = append(r.pairs, p)
	return p, nil
}

func (r *overGRPC) sendBoth(p *pair, request Request) error {
	r.model.Send(p.model, request)
	r.model.Settle()
	return r.streams[p].send(request)
}

func (r *overGRPC) closeBoth(p *pair) error {
	r.model.Close(p.model)
	return r.streams[p].rpc.CloseSend()
}

// callBoth makes, alters or drops the node.
func (r *overGRPC) callBoth(s step) error {
	config := &Ydb_Coordination.Config{SelfCheckPeriodMillis: uint32(s.config.SelfCheckMillis),
		SessionGracePeriodMillis: uint32(s.config.GraceMillis),
		ReadConsistencyMode:      Ydb_Coordination.ConsistencyMode(s.config.ReadMode),
		AttachConsistencyMode:    Ydb_Coordination.ConsistencyMode(s.config.AttachMode)}
	var err error
	switch s.op {
	case opDrop:
		r.model.DropNode()
		_, err = r.nodes.DropNode(r.ctx, &Ydb_Coordination.DropNodeRequest{Path: nodePath})
	case opCreate:
		r.model.CreateNode(s.config)
		_, err = r.nodes.CreateNode(r.ctx, &Ydb_Coordination.CreateNodeRequest{Path: nodePath,
			Config: config})
	case opAlter:
		r.model.AlterNode(s.config)
		_, err = r.nodes.AlterNode(r.ctx, &Ydb_Coordination.AlterNodeRequest{Path: nodePath, Config: config})
	default:
		err = fmt.Errorf("no such step over gRPC: %s", s.op)
	}
	return err
}

// compareAll waits on every stream for what the model says, and then makes sure that nothing more comes.
func (r *overGRPC) compareAll() error {
	deadline := time.Now().Add(grpcPatience)
	var live []*pair
	for _, p := range r.pairs {
		if err := r.compareRemotely(p, deadline); err != nil {
			return fmt.Errorf("stream %d: %w", p.number, err)
		}
		if p.model.Ending() == Open {
			live = append(live, p)
		} else {
			delete(r.streams, p)
		}
	}
	r.pairs = live
	for _, p := range live {
		if p.model.Session() != 0 {
			if err := r.streams[p].fence(); err != nil {
				return err
			}
		}
	}
	for _, p := range live {
		if p.model.Session() == 0 {
			continue
		}
		if got, err := r.streams[p].awaitFence(deadline); err != nil || len(got) > 0 {
			return fmt.Errorf("stream %d: the model says nothing more, the server %v: %w", p.number, got, err)
		}
	}
	return nil
}

func (r *overGRPC) compareRemotely(p *pair, deadline time.Time) error {
	var want []Reply
	for _, reply := range p.model.Replies() {
		if reply.Kind == PingOut {
			r.model.Send(p.model, Request{Kind: Pong, Opaque: reply.Opaque})
			continue
		}
		want = append(want, reply)
	}
	remote := r.streams[p]
	got, err := remote.await(len(want), p.model.Ending() != Open, deadline)
	same := err == nil && sameReplies(want, got) && remote.ending == p.model.Ending()
	if len(want)+len(got) > 0 || !same {
		r.traceReplies(p, same, want, got, p.model.Ending(), remote.ending)
	}
	if !same {
		return fmt.Errorf("the server differs from the model: %w", err)
	}
	r.compared += len(want)
	for _, reply := range want {
		switch {
		case reply.Kind == Failure && reply.Status == SessionExpired:
			p.slot.session = 0
		case reply.Kind == Started:
			p.slot.session, p.slot.seqNo, p.slot.key = reply.Session, p.start.SeqNo, p.start.ProtectionKey
		}
	}
	return nil
}

// remoteStream is a stream on the server.
type remoteStream struct {
	rpc    Ydb_Coordination_V1.CoordinationService_SessionClient
	events chan remoteEvent
	ending Ending
}

type remoteEvent struct {
	message *Ydb_Coordination.SessionResponse
	err     error
}

func (s *remoteStream) read(ctx context.Context) {
	for {
		message, err := s.rpc.Recv()
		select {
		case s.events <- remoteEvent{message, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *remoteStream) send(r Request) error {
	if err := s.rpc.Send(r.Proto()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// fenceReqID is the number of a describe behind which nothing more can come.
const fenceReqID = 1 << 62

func (s *remoteStream) fence() error {
	return s.send(Request{Kind: Describe, ReqID: fenceReqID, Name: "no such semaphore"})
}

// await reads count messages, and the end of the stream if it is to end. Pings are answered on the way.
func (s *remoteStream) await(count int, toEnd bool, deadline time.Time) ([]Reply, error) {
	var got []Reply
	for len(got) < count || toEnd && s.ending == Open {
		reply, err := s.next(deadline)
		if err != nil {
			return got, err
		}
		if reply != nil {
			got = append(got, *reply)
		}
	}
	return got, nil
}

// awaitFence reads up to the answer to the fence and returns what came before it.
func (s *remoteStream) awaitFence(deadline time.Time) ([]Reply, error) {
	var got []Reply
	for {
		reply, err := s.next(deadline)
		switch {
		case err != nil:
			return got, err
		case s.ending != Open:
			return got, errors.New("the stream has ended: " + string(s.ending))
		case reply != nil && reply.ReqID == fenceReqID:
			return got, nil
		case reply != nil:
			got = append(got, *reply)
		}
	}
}

// next is the next message, nil for a ping and for the end of the stream.
func (s *remoteStream) next(deadline time.Time) (*Reply, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case event := <-s.events:
		if event.err != nil {
			s.ending = remoteEnding(event.err)
			return nil, nil
		}
		if ping := event.message.GetPing(); ping != nil {
			return nil, s.send(Request{Kind: Pong, Opaque: ping.GetOpaque()})
		}
		reply := ReplyOf(event.message)
		return &reply, nil
	case <-timer.C:
		return nil, errors.New("what should come does not come")
	}
}

func remoteEnding(err error) Ending {
	switch {
	case errors.Is(err, io.EOF):
		return EndedOK
	case status.Code(err) == codes.InvalidArgument:
		return InvalidStart
	case status.Code(err) == codes.Canceled:
		return Abandoned
	}
	return Ending(err.Error())
}
