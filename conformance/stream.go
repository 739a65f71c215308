package conformance

import (
	"context"
	"fmt"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Played holds what a Replay knows of one Session stream.
type Played struct {
	name       string
	connection Stream
	node       string // the path of its start, cleaned
	restores   bool   // its start named a session
	shown      bool   // the start is shown
	received   int    // messages
	session    uint64
	attached   bool
	stopping   bool
	silent     bool // does not answer pings
	showsPings bool
	ping       uint64 // the number of the outstanding ping, or 0
	lastPing   uint64 // the number of the last ping, answered or not

	last  map[arm]uint64 // the latest request of each kind that has no req=
	named map[uint64]bool
	open  map[uint64]int // requests not answered at all, by number

	starting, endsSoon, fenced bool
	pings                      int  // not answered
	finished                   bool // Failure or SessionStopped has come
	ended                      bool
	cancelled                  bool
}

const fenceReqID = firstOwnReqID - 1

// Connection returns where the stream leads to.
func (s *Played) Connection() Stream { return s.connection }

// Ending reports whether nothing more comes on the stream but its end.
func (s *Played) Ending() bool { return s.Over() || s.finished }

// Attached reports whether the stream has a session that the client has not stopped.
func (s *Played) Attached() bool { return s.attached && !s.Ending() && !s.stopping }

// Over reports whether nothing more comes on the stream.
func (s *Played) Over() bool { return s.ended || s.cancelled }

// owed reports whether an answer must still come.
func (s *Played) owed() bool {
	return !s.Over() && (s.starting || s.endsSoon || s.finished || s.pings > 0 || len(s.open) > 0 ||
		s.attached && s.received == 1)
}

// overdue reports whether the stream should have ended.
func (s *Played) overdue() bool { return s.finished && !s.Over() }

// streamRequest carries out a line such as "s1: acquire door".
func (r *Replay) streamRequest(ctx context.Context, q request) error {
	f := r.fieldsOf(q)
	verb := f.word()
	s := r.streams[q.stream]
	if s == nil || s.Over() && (verb == "start" || verb == "open") {
		connection, err := r.env.Connect(ctx, StreamOptions{Server: f.text("server"), User: f.text("user")})
		if err != nil {
			return err
		}
		s = &Played{name: q.stream, connection: connection, last: make(map[arm]uint64),
			named: make(map[uint64]bool)}
		r.streams[q.stream], r.byConnection[connection] = s, s
	}
	switch a := arm(verb); a {
	case armAcquire, armRelease, armCreate, armUpdate, armDelete, armDescribe:
		return r.semaphoreRequest(s, a, f)
	}
	return r.otherRequest(s, verb, f)
}

func (r *Replay) semaphoreRequest(s *Played, a arm, f *fields) error {
	var reqID uint64
	if value, found := f.take("req"); found {
		n, err := parseNumber(value)
		f.fail(err)
		reqID = n
		s.named[reqID] = true
	} else {
		r.nextReqID++
		reqID = r.nextReqID
		s.last[a] = reqID
	}
	m, err := semaphoreRequest(a, reqID, f)
	if err != nil {
		return err
	}
	if s.open == nil {
		s.open = make(map[uint64]int)
	}
	s.open[reqID]++
	return s.send(m)
}

func (r *Replay) otherRequest(s *Played, verb string, f *fields) error {
	switch verb {
	case "start":
		s.shown = f.flag("shown")
		start, err := startRequest(f)
		if err != nil {
			return err
		}
		if !s.attached {
			s.node, s.restores = CleanPath(start.GetPath()), start.GetSessionId() != 0
		}
		s.starting = true
		return s.send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start}})
	case "stop":
		s.stopping, s.endsSoon = true, true
		if err := f.done(); err != nil {
			return err
		}
		return s.send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStop_{
			SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}})
	case "ping", "pong":
		return s.sendOpaque(verb, f)
	case "half-close":
		s.endsSoon = true
		return s.connection.CloseSend()
	case "cancel":
		s.cancelled = true
		s.connection.Cancel()
	case "open":
	case "no", "answer", "show":
		return s.sets(verb, f)
	default:
		if value, found := f.take("req"); found { // of a raw request
			reqID, err := parseNumber(value)
			f.fail(err)
			s.named[reqID] = true
		}
		message, err := oddRequest(verb, f)
		if err != nil {
			return err
		}
		s.endsSoon = verb != "raw"
		return s.connection.Send(message)
	}
	return f.done()
}

func (s *Played) sendOpaque(verb string, f *fields) error {
	var opaque uint64
	switch word := f.word(); word {
	case "outstanding":
		opaque = s.ping
	case "last":
		opaque = s.lastPing
	default:
		n, err := parseNumber(word)
		f.fail(err)
		opaque = n
	}
	if err := f.done(); err != nil {
		return err
	}
	if opaque == s.ping {
		s.ping = 0
	}
	if verb == "ping" {
		s.pings++
		return s.send(pingRequest(opaque))
	}
	return s.send(pongRequest(opaque))
}

// sets carries out "no pong", "answer pings" and "show pings".
func (s *Played) sets(verb string, f *fields) error {
	switch what := verb + " " + f.word(); what {
	case "no pong":
		s.silent = true
	case "answer pings":
		s.silent = false
	case "show pings":
		s.showsPings = true
	default:
		return fmt.Errorf("unknown request %q", what)
	}
	return f.done()
}

func (s *Played) send(m *sessionRequest) error {
	message, err := encode(m)
	if err != nil {
		return err
	}
	return s.connection.Send(message)
}

func (s *Played) sendFence() error {
	s.fenced = true
	return s.send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: fenceReqID,
			Name: "no such semaphore"}}})
}

// Handle takes what has come on a stream.
func (r *Replay) Handle(e Event) {
	s := r.byConnection[e.Stream]
	if s == nil || s.Over() {
		return
	}
	if e.Message == nil {
		r.handleEnd(s, e.Status)
		return
	}
	s.received++
	m := e.Message
	r.pace.unstretchAll(m)
	if _, isPing := m.GetResponse().(*Ydb_Coordination.SessionResponse_Ping); s.received == 2 && s.attached &&
		!isPing {
		r.add(s.name, "no ping behind the start")
	}
	switch arm := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_Ping:
		r.handlePing(s, arm.Ping.GetOpaque())
		return
	case *Ydb_Coordination.SessionResponse_SessionStarted_:
		r.handleStarted(s, m)
		return
	case *Ydb_Coordination.SessionResponse_Pong:
		s.pings--
	case *Ydb_Coordination.SessionResponse_Failure_:
		s.finished = true
	case *Ydb_Coordination.SessionResponse_SessionStopped_:
		s.finished = true
		if arm.SessionStopped.GetSessionId() == s.session {
			r.add(s.name, "stopped")
			return
		}
	}
	text := r.hidePlace(showReply(m, nodeNames{r.names, s.node}))
	if a, reqID, ok := Answered(m); ok {
		if reqID == fenceReqID {
			s.fenced = false
			return
		}
		text = s.withRequest(text, a, reqID)
	}
	r.add(s.name, text)
}

// withRequest adds to a shown reply which request it answers, where that is not obvious.
func (s *Played) withRequest(text string, a arm, reqID uint64) string {
	if s.open[reqID] > 1 {
		s.open[reqID]--
	} else {
		delete(s.open, reqID) // it may have been forgiven
	}
	suffix := ""
	switch {
	case s.named[reqID]:
		suffix = " req=" + ShowNumber(reqID)
	case reqID == s.last[a]:
		return text
	case reqID > firstOwnReqID:
		suffix = " (an earlier request)"
	default:
		suffix = " req=" + ShowNumber(reqID) + " (never sent)"
	}
	for i := range text { // the first line says it
		if text[i] == '\n' {
			return text[:i] + suffix + text[i:]
		}
	}
	return text + suffix
}

func (r *Replay) handlePing(s *Played, opaque uint64) {
	s.ping, s.lastPing = opaque, opaque
	switch {
	case opaque == 0:
		r.add(s.name, "ping without a number")
	case !s.attached:
		r.add(s.name, "ping before the start")
	case s.showsPings:
		r.add(s.name, "ping")
	}
	if !s.silent {
		s.ping = 0
		_ = s.send(pongRequest(opaque)) // where it fails, the end of the stream follows
	}
}

func (r *Replay) handleStarted(s *Played, m *sessionReply) {
	started := m.GetSessionStarted()
	s.starting = false
	s.session = started.GetSessionId()
	if !s.restores {
		r.names.started(s.node, s.session, s.name)
	}
	if s.received != 1 {
		r.add(s.name, "not the first message: "+showReply(m, nodeNames{r.names, s.node}))
	}
	s.attached = true
	if s.restores || s.shown || started.GetTimeoutMillis() != 0 || s.session == 0 {
		r.add(s.name, showReply(m, nodeNames{r.names, s.node}))
	}
}

func (r *Replay) handleEnd(s *Played, end *status.Status) {
	s.ended = true
	if end.Code() != codes.OK || !s.finished {
		r.add(s.name, ShowEnd(end))
	}
}
