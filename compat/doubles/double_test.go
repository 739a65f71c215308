package doubles

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Shorter names of the protocol's messages.
type (
	Request  = Ydb_Coordination.SessionRequest
	Response = Ydb_Coordination.SessionResponse
	Failure  = Ydb_Coordination.SessionResponse_Failure
)

// ErrLost ends a call whose answer cannot come any more.
var ErrLost = errors.New("the SDK gives the call up")

// Double is a session of an SDK's double.
type Double struct {
	Habits
	// Patience is for what the SDK would wait for without end.
	Patience time.Duration

	client   Client
	conn     grpc.ClientConnInterface
	node     string
	cancel   context.CancelFunc
	calls    chan *Call
	breaks   chan struct{}
	leaves   chan struct{}
	finished chan struct{}

	// Of the goroutine that runs it.
	stream   Ydb_Coordination_V1.CoordinationService_SessionClient
	id       uint64
	sequence uint64
	key      []byte
	nextID   map[string]uint64
	open     []*Call // sent, in that order
	backlog  []*Call
	attached bool
	starts   []time.Time

	session  atomic.Uint64
	answered atomic.Int64
	attaches atomic.Int64
	begun    chan struct{} // closed with the first SessionStarted
	mutex    sync.Mutex
	states   []FailureState
	entered  []time.Time // when it entered each
	believes pulse
	last     Ending
	heard    []*Response
}

// Call is a request on its way.
type Call struct {
	Request *Request
	Method  string
	ID      uint64
	Name    string // of the semaphore
	Sent    time.Time
	Acked   bool // a Pending has come
	answer  chan *Response
}

// Start attaches a session to a node.
func Start(ctx context.Context, sdk SDK, conn grpc.ClientConnInterface, node string) *Double {
	return start(ctx, sdk, conn, node, Patience)
}

func start(ctx context.Context, sdk SDK, conn grpc.ClientConnInterface, node string,
	patience time.Duration) *Double {
	ctx, cancel := context.WithCancel(ctx)
	d := &Double{Habits: sdk.Habits, Patience: patience, conn: conn, node: node, cancel: cancel,
		calls: make(chan *Call), breaks: make(chan struct{}), leaves: make(chan struct{}),
		finished: make(chan struct{}), begun: make(chan struct{}), sequence: sdk.FirstSequence,
		nextID: make(map[string]uint64), key: make([]byte, sdk.KeyBytes)}
	_, _ = rand.Read(d.key)
	d.client = sdk.Client(d)
	go d.run(ctx)
	return d
}

// Session is the id of the session, 0 before there is one.
func (d *Double) Session() uint64 { return d.session.Load() }

// Attaches counts the SessionStarted messages.
func (d *Double) Attaches() int64 { return d.attaches.Load() }

// Answered counts the answered requests.
func (d *Double) Answered() int64 { return d.answered.Load() }

// Begun is closed when the session is attached for the first time, Finished when the double has ended.
func (d *Double) Begun() <-chan struct{} { return d.begun }

// Finished is closed when the double has ended.
func (d *Double) Finished() <-chan struct{} { return d.finished }

// States are the states of failure that it has entered.
func (d *Double) States() []FailureState {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.states)
}

// Entered returns the time at which it entered each of them.
func (d *Double) Entered() []time.Time {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.entered)
}

// Believes begins to look for silences behind which the client may not believe any more that its session
// lives.
func (d *Double) Believes() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.believes.lapsed = time.Time{}
}

// Until is the time up to which the client may have believed in its session, at most now.
func (d *Double) Until() time.Time {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.believes.until(d.Timeout)
}

// Ending returns how its last stream ended.
func (d *Double) Ending() Ending {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.last
}

// Heard are all messages that have come.
func (d *Double) Heard() []*Response {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.heard)
}

// Break has the network break the stream.
func (d *Double) Break() {
	select {
	case d.breaks <- struct{}{}:
	case <-d.finished:
	}
}

// Leave ends the double in the way of its SDK.
func (d *Double) Leave() {
	select {
	case d.leaves <- struct{}{}:
	case <-d.finished:
	}
	<-d.finished
	d.cancel()
}

// Do sends a request and returns its result.
func (d *Double) Do(ctx context.Context, r *Request) (*Response, error) {
	c := d.call(r)
	select {
	case d.calls <- c:
	case <-d.finished:
		return nil, ErrLost
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return d.await(ctx, c)
}

func (d *Double) call(r *Request) *Call {
	method, body := arm(r.ProtoReflect())
	name := ""
	if f := body.Descriptor().Fields().ByName("name"); f != nil {
		name = body.Get(f).String()
	}
	return &Call{Request: proto.CloneOf(r), Method: method, Name: name, answer: make(chan *Response, 1)}
}

func (d *Double) await(ctx context.Context, c *Call) (*Response, error) {
	select {
	case answer := <-c.answer:
		if answer == nil {
			return nil, ErrLost
		}
		return answer, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s of %s: %w", c.Method, d.SDK, ctx.Err())
	}
}

// arm returns the name and the message of the one field that is set, or "".
func arm(m protoreflect.Message) (string, protoreflect.Message) {
	field := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if field == nil {
		return "", nil
	}
	return string(field.Name()), m.Get(field).Message()
}

// resultOf returns the request method and id that m answers; "" if m is not a result.
func resultOf(m *Response) (string, uint64) {
	name, body := arm(m.ProtoReflect())
	method, is := strings.CutSuffix(name, "_result")
	if !is {
		return "", 0
	}
	return method, body.Get(body.Descriptor().Fields().ByName("req_id")).Uint()
}

// run attaches as long as the SDK does.
func (d *Double) run(ctx context.Context) {
	defer close(d.finished)
	defer d.cancel()
	for {
		ending, state, left := d.attach(ctx)
		d.attached = false
		d.enter(state)
		d.mutex.Lock()
		d.last = ending
		d.mutex.Unlock()
		next := Next{}
		if state == Well && !left && ctx.Err() == nil {
			next = d.client.Ends(ending)
			d.enter(next.State)
		}
		d.open = slices.DeleteFunc(d.open, func(c *Call) bool {
			lost := !next.Again || !slices.Contains(d.Resends, c.Method)
			if lost {
				c.answer <- nil
			}
			return lost
		})
		if !next.Again || !d.pause(ctx, next.After) {
			for _, c := range append(d.open, d.backlog...) {
				c.answer <- nil
			}
			return
		}
	}
}

// pause takes requests meanwhile, and reports whether the double is to go on.
func (d *Double) pause(ctx context.Context, after time.Duration) bool {
	timer := time.NewTimer(after)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case c := <-d.calls:
			d.backlog = append(d.backlog, c)
		case <-d.breaks:
		case <-d.leaves:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (d *Double) enter(state FailureState) {
	if state == Well {
		return
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.states, d.entered = append(d.states, state), append(d.entered, time.Now())
}

// pulse records the last message of a session.
type pulse struct {
	last   time.Time
	lapsed time.Time // when a silence had become as long as the session's timeout, or zero
}

func (p *pulse) beat(timeout time.Duration) {
	now := time.Now()
	if end := p.last.Add(timeout); !p.last.IsZero() && now.After(end) && p.lapsed.IsZero() {
		p.lapsed = end
	}
	p.last = now
}

func (p *pulse) until(timeout time.Duration) time.Time {
	now := time.Now()
	if !p.lapsed.IsZero() {
		return p.lapsed
	}
	if end := p.last.Add(timeout); end.Before(now) {
		return end
	}
	return now
}

type received struct {
	message *Response
	err     error
}

// attach opens a stream, and returns how it ended, the state that the SDK entered by it, and whether it has
// left.
func (d *Double) attach(ctx context.Context) (e Ending, state FailureState, left bool) {
	now := time.Now()
	if d.starts = append(d.starts, now); len(d.starts) > hot {
		d.starts = d.starts[1:]
		if now.Sub(d.starts[0]) < time.Second {
			return e, HotLoop, false
		}
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, d.headers()...))
	defer cancel()
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(d.conn).Session(ctx)
	if err != nil {
		return Ending{Err: err}, Well, false
	}
	d.stream = stream
	messages := make(chan received)
	go func() {
		for {
			m, err := stream.Recv()
			select {
			case messages <- received{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	d.send(&Request{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{
		Path: d.node, SessionId: d.id, TimeoutMillis: uint64(d.Timeout.Milliseconds()), SeqNo: d.sequence,
		ProtectionKey: d.key,
		Description:   d.Description}}})
	if d.Counts {
		d.sequence++
	}
	return d.follow(ctx, messages)
}

func (d *Double) headers() []string {
	headers := []string{"x-ydb-database", "/local", "x-ydb-sdk-build-info", d.BuildInfo}
	if d.EmptyTicket {
		headers = append(headers, "x-ydb-auth-ticket", "")
	}
	return headers
}

// clock is a timer that may be off.
type clock struct{ *time.Timer }

func newClock(after time.Duration) clock {
	c := clock{time.NewTimer(time.Hour)}
	c.set(after)
	return c
}

func (c clock) set(after time.Duration) {
	if c.Stop(); after > 0 {
		c.Reset(after)
	}
}

// follow is a stream from behind its start to its end.
func (d *Double) follow(ctx context.Context, messages <-chan received) (e Ending, state FailureState,
	left bool) {
	patience, silence, queue, wake, end := newClock(d.startPatience()), newClock(0), newClock(0), newClock(0),
		newClock(0)
	leaving := false
	for {
		calls := d.calls
		if !d.attached {
			calls = nil
		}
		select {
		case r := <-messages:
			if r.err != nil {
				e.Err = r.err
				return e, Well, leaving
			}
			if d.AnyMessage && !e.Started {
				patience.set(d.StartPatience)
			}
			silence.set(d.Silence)
			if r.message.GetPing().GetOpaque() == 0 {
				queue.set(d.QueueSilence)
			}
			state, over := d.receive(r.message, &e)
			if state != Well || over {
				return e, state, leaving
			}
			if e.Failure != nil || e.Stopped {
				if wake.set(0); !leaving {
					end.set(d.Patience)
				}
			}
			if r.message.GetSessionStarted() != nil && d.attached {
				patience.set(0)
				after, state := d.client.Wakes()
				if state != Well {
					return e, state, leaving
				}
				wake.set(after)
			}
		case c := <-calls:
			d.begin(c)
		case <-wake.C:
			after, state := d.client.Wakes()
			if state != Well {
				return e, state, leaving
			}
			wake.set(after)
		case <-patience.C:
			e.Late = true
			return e, Well, leaving
		case <-silence.C:
			e.Silent = true
			return e, Well, leaving
		case <-queue.C:
			e.Silent = true
			return e, Well, leaving
		case <-end.C:
			if leaving {
				return e, d.Unended, true
			}
			return e, d.AwaitsEnd, false
		case <-d.breaks:
			e.Asked = true
			return e, Well, leaving
		case <-d.leaves:
			switch leaving = true; d.Goodbye {
			case Cancels:
				return e, Well, true
			case HalfCloses:
				_ = d.stream.CloseSend()
				end.set(d.farewell())
			case Stops, StopsAndHalfCloses:
				d.send(&Request{Request: &Ydb_Coordination.SessionRequest_SessionStop_{
					SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}})
				end.set(d.farewell())
			}
		case <-ctx.Done():
			return e, Well, leaving
		}
	}
}

// startPatience limits the wait for SessionStarted.
func (d *Double) startPatience() time.Duration {
	if d.StartPatience > 0 {
		return d.StartPatience
	}
	return d.Patience
}

// farewell limits the wait for the end of the stream.
func (d *Double) farewell() time.Duration {
	if d.GoodbyePatience > 0 {
		return d.GoodbyePatience
	}
	return d.Patience
}

// receive does what the SDK does with a message, and reports whether it has done with the stream.
func (d *Double) receive(m *Response, e *Ending) (state FailureState, over bool) {
	d.mutex.Lock()
	if m.GetFailure() == nil { // which is no sign that the session lives
		d.believes.beat(d.Timeout)
	}
	d.heard = append(d.heard, m)
	if len(d.heard) > 10_000 { // of a soak, where nobody looks at them
		d.heard = slices.Delete(d.heard, 0, 5_000)
	}
	d.mutex.Unlock()
	if state := d.client.Receives(m); state != Well {
		return state, true
	}
	switch {
	case m.GetPing() != nil:
		d.answerPing(m.GetPing().GetOpaque())
	case m.GetSessionStarted().GetSessionId() != 0:
		d.id, e.Started, d.attached = m.GetSessionStarted().GetSessionId(), true, true
		d.session.Store(d.id)
		if d.attaches.Add(1) == 1 {
			close(d.begun)
		}
		d.resume()
	case m.GetFailure() != nil:
		e.Failure, d.attached = m.GetFailure(), false
		return Well, d.AwaitsEnd == Well
	case m.GetSessionStopped() != nil:
		e.Stopped, d.attached = true, false
		if d.Goodbye == StopsAndHalfCloses {
			_ = d.stream.CloseSend()
			return Well, false
		}
		return Well, d.AwaitsEnd == Well
	default:
		d.deliver(m)
	}
	return Well, false
}

// answerPing answers in the SDK's own way; a stream that is not attached yet gets no echo.
func (d *Double) answerPing(opaque uint64) {
	pingPong := &Ydb_Coordination.SessionRequest_PingPong{Opaque: opaque}
	switch {
	case !d.EchoesPings:
		d.send(&Request{Request: &Ydb_Coordination.SessionRequest_Pong{Pong: pingPong}})
	case d.attached && opaque != 0:
		d.send(&Request{Request: &Ydb_Coordination.SessionRequest_Ping{Ping: pingPong}})
	}
}

// resume sends what is to be sent behind a SessionStarted: first what was sent before.
func (d *Double) resume() {
	again, fresh := d.open, d.backlog
	d.open, d.backlog = nil, nil
	for _, c := range again {
		if !d.SameIDs {
			c.ID = d.takeID(c.Method)
		}
		c.Acked = false
		if d.client.Sends(c) {
			d.write(c)
		}
	}
	for _, c := range fresh {
		d.begin(c)
	}
}

// begin sends a request for the first time.
func (d *Double) begin(c *Call) {
	c.ID = d.takeID(c.Method)
	if d.client.Sends(c) {
		d.write(c)
	}
}

func (d *Double) takeID(method string) uint64 {
	if !d.PerMethod {
		method = ""
	}
	d.nextID[method]++
	return d.nextID[method] - 1 + d.FirstID
}

func (d *Double) write(c *Call) {
	_, body := arm(c.Request.ProtoReflect())
	body.Set(body.Descriptor().Fields().ByName("req_id"), protoreflect.ValueOfUint64(c.ID))
	c.Sent = time.Now()
	d.open = append(d.open, c)
	d.send(c.Request)
}

// send leaves errors to the receiver, who hears of the stream's end.
func (d *Double) send(r *Request) { _ = d.stream.Send(r) }

// find returns the call of a method with an id, or nil.
func (d *Double) find(method string, id uint64) *Call {
	i := slices.IndexFunc(d.open, func(c *Call) bool { return c.Method == method && c.ID == id })
	if i < 0 {
		return nil
	}
	return d.open[i]
}

func (d *Double) deliver(m *Response) {
	method, id := resultOf(m)
	c := d.find(method, id)
	if c == nil {
		return
	}
	d.open = slices.DeleteFunc(d.open, func(o *Call) bool { return o == c })
	c.answer <- m
	d.answered.Add(1)
}

// dropped reports whether a message is the result of a call that nobody waits for.
func (d *Double) dropped(m *Response) bool {
	method, id := resultOf(m)
	return method != "" && d.find(method, id) == nil
}

// bans reports whether the end of a stream makes SDKs avoid the server: any but OK, and but what they have
// done themselves.
func bans(err error) bool {
	return err != nil && err != io.EOF && status.Code(err) != codes.Canceled
}
