package faults

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/wire"
)

type (
	clientMessage = Ydb_Coordination.SessionRequest
	serverMessage = Ydb_Coordination.SessionResponse
)

const (
	// startPause delays a start's refusal, as the server does: several SDKs try again without a pause.
	startPause = 100 * time.Millisecond
	// sendPatience limits the wait until a client that is being dropped makes room for its Failure.
	sendPatience = time.Second
	// maxHeld and maxHeldBytes bound what waits behind a delayed request; beyond it the client is not read.
	maxHeld      = 1000
	maxHeldBytes = 8 << 20
)

// errEnded is the error that the server gets from a stream that a fault has ended.
var errEnded = status.Error(codes.Canceled, "the stream has been ended by a fault")

// stream is a Session stream, seen from between gRPC and the server. The server reads it from one goroutine,
// and one at a time sends.
type stream struct {
	grpc.ServerStream
	set    *Set
	ctx    context.Context
	finish listen.StatusWriter // gRPC's
	number uint64
	server int
	client string
	sdk    string
	tap    StreamTap // nil: nobody

	arriving chan arrival  // what the client says
	gone     chan struct{} // closed when the handler has returned
	bell     turn.Bell     // there is something else to hand to the server
	held     []*held       // owned by the reader, as the next
	heldSize int
	gotEnd   error // the client's

	sending chan struct{} // holds one while somebody sends

	mutex    sync.Mutex
	node     string
	session  uint64
	injected []*clientMessage
	names    map[asked]string  // the semaphores of requests that are not answered
	lost     map[asked]bool    // whose answer ends the stream
	unasked  map[asked]bool    // whose answer the client is not to see
	asking   map[uint64]string // describes that want a watch: the semaphore
	watches  map[string]uint64 // by semaphore: the describe
	told     map[uint64]bool   // watches that the client takes for fired
	mode     mode
	ending   *status.Status // what a mute stream would have ended with
	voice    chan struct{}  // closed when a mute stream has been ended
}

// asked names a request.
type asked struct {
	kind Kind
	id   uint64
}

type mode uint8

const (
	speaking mode = iota
	silent        // nothing is sent; the client does not know
	over
)

// arrival is the client's next message, or the end of its stream.
type arrival struct {
	message *clientMessage
	err     error
}

// held is a request that waits.
type held struct {
	message *clientMessage
	judged  bool // it is the one that is waited for; the others wait after it
	tapped  bool // by the tap, not by a fault
	due     atomic.Bool
	stop    func() bool
}

// Stream is the interceptor for Session streams. It has to be the innermost.
func (s *Server) Stream() grpc.StreamServerInterceptor {
	return func(service any, rpc grpc.ServerStream, info *grpc.StreamServerInfo,
		handler grpc.StreamHandler) error {
		if info.FullMethod != Ydb_Coordination_V1.CoordinationService_Session_FullMethodName {
			return handler(service, rpc)
		}
		st, err := s.set.open(s.number, rpc)
		if err != nil {
			return err
		}
		defer s.set.close(st)
		err = handler(service, st)
		st.awaitVoice()
		return err
	}
}

func (s *Set) open(server int, rpc grpc.ServerStream) (*stream, error) {
	finish, err := listen.StatusWriterOf(rpc.Context())
	if err != nil {
		return nil, err
	}
	// The server would do the same, but only gRPC's own stream knows the compression.
	if err := listen.SendUncompressed(rpc.Context()); err != nil {
		return nil, err
	}
	st := &stream{ServerStream: rpc, set: s, finish: finish, server: server, client: clientOf(rpc.Context()),
		sdk: sdkOf(rpc.Context()), arriving: make(chan arrival), gone: make(chan struct{}),
		bell: turn.NewBell(), sending: make(chan struct{}, 1), voice: make(chan struct{})}
	st.ctx = listen.WithStatusWriter(rpc.Context(), st)
	s.mutex.Lock()
	s.opened++
	st.number = s.opened
	s.streams[st] = struct{}{}
	s.mutex.Unlock()
	if tap := s.tap.Load(); tap != nil {
		st.tap = (*tap).Open(st)
	}
	go st.read()
	return st, nil
}

// close forgets a stream whose handler returns.
func (s *Set) close(st *stream) {
	close(st.gone)
	for _, h := range st.held {
		h.forget()
	}
	s.mutex.Lock()
	delete(s.streams, st)
	delete(s.mute, st)
	s.mutex.Unlock()
	if st.tap != nil {
		st.tap.Close()
	}
}

func clientOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// maxSDK bounds what is remembered of what a client says it is.
const maxSDK = 128

func sdkOf(ctx context.Context) string {
	for _, info := range metadata.ValueFromIncomingContext(ctx, "x-ydb-sdk-build-info") {
		return info[:min(len(info), maxSDK)]
	}
	return ""
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// read brings what the client says, until the handler has returned: then gRPC ends the stream.
func (s *stream) read() {
	for {
		m := new(clientMessage)
		err := s.ServerStream.RecvMsg(m)
		select {
		case s.arriving <- arrival{m, err}:
		case <-s.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// RecvMsg gives the server the next message that it is to have.
func (s *stream) RecvMsg(into any) error {
	for {
		m, judged, err := s.next()
		if err != nil {
			return err
		}
		if !judged {
			if deliver, err := s.judge(m); err != nil {
				return err
			} else if !deliver {
				continue
			}
		}
		hand(m, into)
		return nil
	}
}

// hand gives the server a message that nobody else has.
func hand(m *clientMessage, into any) {
	if message, is := into.(*wire.ClientMessage); is {
		*message = wire.ClientMessage(wire.FromClient(m))
		return
	}
	generated := into.(*clientMessage)
	generated.Request = m.Request
	generated.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
}

// next returns the server's next message. judged reports that no fault applies to it any more.
func (s *stream) next() (m *clientMessage, judged bool, err error) {
	for {
		if m := s.takeInjected(); m != nil {
			return m, true, nil
		}
		if len(s.held) > 0 && s.held[0].ready() {
			h := s.held[0]
			s.held = s.held[1:]
			s.heldSize -= proto.Size(h.message)
			return h.message, h.judged, nil
		}
		if len(s.held) == 0 && s.gotEnd != nil {
			return nil, false, s.part()
		}
		arriving := s.arriving
		if s.gotEnd != nil || len(s.held) >= maxHeld || s.heldSize >= maxHeldBytes {
			arriving = nil
		}
		select {
		case a := <-arriving:
			if a.err != nil {
				s.gotEnd = a.err
				s.dropDelayed()
				continue
			}
			if kind, _, _ := kindOf(a.message); kind == "" || len(s.held) == 0 {
				return a.message, false, nil
			}
			s.hold(&held{message: a.message})
		case <-s.bell:
		}
	}
}

// dropDelayed forgets what waits because of a fault, and what waits behind it: the client has gone meanwhile.
func (s *stream) dropDelayed() {
	if len(s.held) > 0 && !s.held[0].tapped {
		for _, h := range s.held {
			h.forget()
		}
		s.held, s.heldSize = nil, 0
	}
}

// part has the tap know of the client's end before the server does.
func (s *stream) part() error {
	s.mutex.Lock()
	theirs := s.mode == speaking
	s.mutex.Unlock()
	if s.tap != nil && theirs {
		delivered := make(chan struct{})
		s.tap.Gone(s.gotEnd == io.EOF, func() { close(delivered) })
		<-delivered
	}
	return s.gotEnd
}

func (s *stream) hold(h *held) {
	s.held = append(s.held, h)
	s.heldSize += proto.Size(h.message)
}

// ready reports whether a request at the head need not wait any more.
func (h *held) ready() bool { return !h.judged || h.due.Load() }

func (h *held) forget() {
	if h.stop != nil {
		h.stop()
	}
}

// Inject implements Injector.
func (s *stream) Inject(m *Ydb_Coordination.SessionRequest) {
	s.mutex.Lock()
	s.injected = append(s.injected, m)
	s.mutex.Unlock()
	s.bell.Ring()
}

func (s *stream) takeInjected() *clientMessage {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.injected) == 0 {
		return nil
	}
	m := s.injected[0]
	s.injected = s.injected[1:]
	return m
}

// judge does to a message what the faults say, and reports whether the server gets it now.
func (s *stream) judge(m *clientMessage) (deliver bool, err error) {
	q := s.describe(m)
	if q.Kind == "" {
		return true, nil
	}
	s.named(&q)
	a := s.set.decide(&q)
	switch a.what {
	case actRefuse:
		return false, s.refuse(&q, a.refusal)
	case actDelay:
		s.delay(m, a.delay)
		return false, nil
	case actDrop:
		s.drop(a.how)
		return false, s.endedBy(a.how)
	case actLose, actRepeat:
		s.note(m, &q, a.what == actRepeat)
	}
	s.watch(&q)
	if s.tap == nil {
		return true, nil
	}
	h := s.holdFirst(m)
	h.tapped = true
	s.tap.Request(m, h.let(s))
	return false, nil
}

// endedBy returns the error for the reader of a stream that was dropped by its own request.
func (s *stream) endedBy(how Drop) error {
	if how == Clean {
		return errEnded
	}
	return nil // the end of the connection comes by itself, or none does
}

// describe returns the Request of a message, and records the session for which the stream speaks.
func (s *stream) describe(m *clientMessage) Request {
	kind, reqID, name := kindOf(m)
	q := Request{At: time.Now(), Kind: kind, Server: s.server, Stream: s.number, Client: s.client, SDK: s.sdk,
		ReqID: reqID, Name: name}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	q.Node, q.Session = s.node, s.session
	q.fill(m)
	if q.Node = s.set.Path(q.Node); kind == Start && s.node == "" {
		s.node, s.session = q.Node, q.Session
	}
	return q
}

func (s *stream) delay(m *clientMessage, d time.Duration) {
	h := s.holdFirst(m)
	h.stop = s.set.after(d, h.let(s))
}

// holdFirst makes a request wait, and those after it too.
func (s *stream) holdFirst(m *clientMessage) *held {
	h := &held{message: m, judged: true}
	s.held = append([]*held{h}, s.held...)
	s.heldSize += proto.Size(m)
	return h
}

// let ends the waiting.
func (h *held) let(s *stream) func() {
	return func() {
		h.due.Store(true)
		s.bell.Ring()
	}
}

// note ends the stream before the first answer to a request, which may be repeated when its session is back.
func (s *stream) note(m *clientMessage, q *Request, again bool) {
	s.mutex.Lock()
	s.lost = put(s.lost, asked{q.Kind, q.ReqID}, true)
	s.mutex.Unlock()
	if again {
		s.set.keep(sessionKey{q.Node, q.Session}, m)
	}
}

// put is an assignment to a map that is made when it is needed.
func put[K comparable, V any](into map[K]V, key K, value V) map[K]V {
	if into == nil {
		into = make(map[K]V)
	}
	into[key] = value
	return into
}

// maxKeptBytes bounds the requests that are to be repeated; one more is not.
const maxKeptBytes = 16 << 20

// keep remembers a request for when its session is attached again.
func (s *Set) keep(session sessionKey, m *clientMessage) {
	again := proto.CloneOf(m)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if size := proto.Size(again); s.kept+size <= maxKeptBytes {
		s.kept += size
		s.repeats[session] = append(s.repeats[session], again)
	}
}

// takeRepeats are the requests to repeat for a session.
func (s *Set) takeRepeats(session sessionKey) []*clientMessage {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	list := s.repeats[session]
	delete(s.repeats, session)
	for _, m := range list {
		s.kept -= proto.Size(m)
	}
	return list
}

// repeat has the server get requests once more, each with a number of its own, and keeps the answers from the
// client.
func (s *stream) repeat(list []*clientMessage) {
	for _, m := range list {
		kind, _, _ := kindOf(m)
		s.mutex.Lock()
		id := rand.Uint64()
		s.unasked = put(s.unasked, asked{kind, id}, true)
		s.mutex.Unlock()
		setReqID(m, id)
		s.Inject(m)
	}
}

// setReqID numbers one of the six requests.
func setReqID(m *clientMessage, id uint64) {
	arm := m.ProtoReflect()
	field := arm.WhichOneof(arm.Descriptor().Oneofs().ByName("request"))
	inner := arm.Mutable(field).Message()
	inner.Set(inner.Descriptor().Fields().ByName("req_id"), protoreflect.ValueOfUint64(id))
}

// watch remembers which semaphore a describe would watch.
func (s *stream) watch(q *Request) {
	if q.Kind == Describe && (q.WatchData || q.WatchOwners) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.asking = put(s.asking, q.ReqID, q.Name)
		delete(s.told, q.ReqID) // the number begins anew
	}
}
