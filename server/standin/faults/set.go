package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/scheme"
)

// Set is the set of faults of a stand-in, of one server or of several. Make one with New.
type Set struct {
	database string // relative paths are below it
	after    func(d time.Duration, do func()) (stop func() bool)
	tap      atomic.Pointer[Tap]
	log      requestLog
	messages messageLog

	mutex   sync.Mutex
	rules   []*rule
	past    []Rule // see retire
	hook    func(Request) Action
	streams map[*stream]struct{}
	conns   map[string]*conn // by the client's address
	repeats map[sessionKey][]*Ydb_Coordination.SessionRequest
	kept    int // bytes of repeats, in all
	mute    map[*stream]struct{}
	holes   map[*conn]struct{}
	opened  uint64 // streams ever

	controls map[int]hooks.Control // of the servers
	network  network
	disks    disks
}

// sessionKey names a session.
type sessionKey struct {
	node string
	id   uint64
}

// New returns a set without any faults, for a stand-in of a database. after is time.AfterFunc on the clock by which
// requests are delayed; nil: the real one.
func New(database string, after func(d time.Duration, do func()) (stop func() bool)) *Set {
	if after == nil {
		after = func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop }
	}
	return &Set{database: cleanPath(database), after: after,
		streams: make(map[*stream]struct{}), conns: make(map[string]*conn),
		repeats: make(map[sessionKey][]*Ydb_Coordination.SessionRequest), mute: make(map[*stream]struct{}),
		holes: make(map[*conn]struct{})}
}

// Path returns the absolute path of a coordination node, which may be relative to the database as in requests (see
// scheme.InDatabase). Repeated slashes and one at the end do not matter. The empty path stays empty.
func (s *Set) Path(node string) string {
	if node == "" {
		return ""
	}
	return cleanPath(scheme.InDatabase(node, s.database))
}

// cleanPath is a path without superfluous slashes, and with the first one.
func cleanPath(path string) string {
	return "/" + strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "/")
}

// Option says more about a fault.
type Option func(*options)

type options struct {
	filter     Filter
	impossible bool
	mayMiss    bool
	status     Status
	text       string
}

// Where has a fault meet only some clients.
func Where(f Filter) Option { return func(o *options) { o.filter = f } }

// Impossible lets a request fail with a status that the specification does not know for its kind. No SDK has
// to be prepared for it, and some hang.
func Impossible() Option { return func(o *options) { o.impossible = true } }

// MayMiss allows a fault to meet nothing: a drop or a notice without a stream, a rule without a request until Reset.
func MayMiss() Option { return func(o *options) { o.mayMiss = true } }

// With is the status and the text of FailSome. Without it a stream ends with UNAVAILABLE and a call fails
// with it.
func With(status Status, text string) Option {
	return func(o *options) { o.status, o.text = status, text }
}

func (o *options) apply(more []Option) {
	for _, option := range more {
		option(o)
	}
}

func (o *options) refusal(kind Kind) (Refusal, error) {
	switch {
	case o.status == Ydb.StatusIds_SUCCESS || o.status == Ydb.StatusIds_STATUS_CODE_UNSPECIFIED:
		return Refusal{}, fmt.Errorf("%s: a request that was not executed cannot have succeeded", o.status)
	case o.impossible:
		return kind.impossible(o.status, o.text), nil
	}
	return kind.refusal(o.status, o.text)
}

// most bounds the number of rules at once.
const most = 1000

var errTooMany = fmt.Errorf("there are %d already; Reset takes them back", most)

// FailNext has the next n requests of a kind fail with a status, and a text; an empty one is YDB's. They are
// not executed: it comes before. It shows as the specification has it for that status: as the result of the
// request, or as a Failure behind which the stream ends. With a status that such requests never fail with it
// is an error, unless the fault is Impossible. It returns the names of the SDKs that do not recover from it, or
// overlook it.
func (s *Set) FailNext(kind Kind, n int, status Status, text string, more ...Option) (troubled string,
	err error) {
	o := options{status: status, text: text}
	return s.fail("fail-next", kind, n, o, more, nil)
}

// FailSome has each request of a kind fail with probability p until Reset, drawn with a seed: the same
// requests in the same order fail again with the same seed. It shows as FailNext does.
func (s *Set) FailSome(kind Kind, p float64, seed uint64, more ...Option) (troubled string, err error) {
	if !(p >= 0 && p <= 1) {
		return "", fmt.Errorf("probability %v: want 0 to 1", p)
	}
	o := options{status: Ydb.StatusIds_UNAVAILABLE}
	return s.fail("fail-some", kind, -1, o, more, func(r *rule) {
		r.chance, r.random = p, rand.New(rand.NewPCG(seed, seed))
	})
}

func (s *Set) fail(order string, kind Kind, n int, o options, more []Option, adjust func(*rule)) (troubled string,
	err error) {
	if err := kind.check(); err != nil {
		return "", err
	}
	o.apply(more)
	refusal, err := o.refusal(kind)
	if err != nil {
		return "", err
	}
	r := &rule{order: order, kind: kind, filter: o.filter, left: n, mayMiss: o.mayMiss,
		action: Action{what: actRefuse, refusal: refusal}}
	if adjust != nil {
		adjust(r)
	}
	return kind.Troubled(refusal), s.add(r)
}

// DelayNext keeps the next n requests of a kind from the server for d, of virtual time if the stand-in's
// clock is faked. It comes before: the server does not know of them, nor of what the same stream asks for
// behind them. Pings are answered meanwhile. A request whose client goes meanwhile is never executed.
func (s *Set) DelayNext(kind Kind, n int, d time.Duration, more ...Option) error {
	if d <= 0 {
		return fmt.Errorf("delay %v: want more than 0", d)
	}
	return s.next("delay-next", kind, n, Action{what: actDelay, delay: d}, more)
}

// AnswerLost has the next n requests of a kind executed, and their streams end before the first answer to
// them, which may be a Pending. It comes behind. A stream ends with gRPC status UNAVAILABLE and without a
// Failure, as where something between client and server is restarted; so does a call. The client cannot know
// whether the request was executed.
func (s *Set) AnswerLost(kind Kind, n int, more ...Option) error {
	return s.next("answer-lost", kind, n, Action{what: actLose}, more)
}

// RepeatNext is AnswerLost, and once the session is attached again its server gets the request for a second
// time, before the client's further messages, as from an SDK that repeats unanswered requests. The result of the second
// is sent to no client. It is for the six requests that are about semaphores.
func (s *Set) RepeatNext(kind Kind, n int, more ...Option) error {
	if !kind.ofStream() || kind == Start || kind == Stop {
		return fmt.Errorf("requests of kind %s are not repeated", kind)
	}
	return s.next("repeat-next", kind, n, Action{what: actRepeat}, more)
}

func (s *Set) next(order string, kind Kind, n int, what Action, more []Option) error {
	if err := kind.check(); err != nil {
		return err
	}
	var o options
	o.apply(more)
	return s.add(&rule{order: order, kind: kind, filter: o.filter, left: n, mayMiss: o.mayMiss, action: what})
}

func (s *Set) add(r *rule) error {
	if r.left == 0 || r.left < -1 {
		return errors.New("how many: want at least 1")
	}
	r.filter.Node = s.Path(r.filter.Node)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	rules := s.rules[:0:0]
	for _, old := range s.rules {
		if old.left != 0 { // the others have done what they were for
			rules = append(rules, old)
		} else {
			s.retire(old)
		}
	}
	if s.rules = rules; len(rules) >= most {
		return errTooMany
	}
	s.rules = append(s.rules, r)
	return nil
}

// OnRequest has a function decide about each request, before any rule does; nil ends that. It is called by
// the goroutines of many streams at once, and must not wait for a client. What it returns besides the zero
// value is done.
func (s *Set) OnRequest(do func(Request) Action) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.hook = do
}

// Pending counts the faults that wait for a request, those of FailSome excepted.
func (s *Set) Pending() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	n := 0
	for _, r := range s.rules {
		n += max(0, r.left)
	}
	return n
}

// decide takes note of a request and finds what is done to it.
func (s *Set) decide(q *Request) Action {
	s.log.add(q)
	a, fault := s.actionFor(q)
	s.messages.request(q, fault)
	return a
}

// actionFor returns the treatment of a request, and the order that wants it.
func (s *Set) actionFor(q *Request) (a Action, fault string) {
	s.mutex.Lock()
	hook := s.hook
	s.mutex.Unlock()
	if hook != nil {
		if a := hook(*q); a.what != actPass {
			return a, "on-request"
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, r := range s.rules {
		if r.meets(q) {
			return r.action, r.order
		}
	}
	return Action{}, ""
}

// Reset takes back every fault that is still to come or lasts: rules, the function of OnRequest, requests to
// repeat, streams that are not answered, connections on which nothing passes, partitions, full and slow
// disks. What was not said on a stream is lost, so such a stream ends with gRPC status UNAVAILABLE; where
// nothing has passed, it does now. Requests remain. It returns a line for each rule that no request has met,
// unless that may be (MayMiss).
func (s *Set) Reset() (missed []string) {
	requests := s.Requests()
	s.mutex.Lock()
	for _, r := range s.rules {
		if !r.met && !r.mayMiss {
			missed = append(missed, r.miss(requests))
		}
		s.retire(r)
	}
	s.rules, s.hook = nil, nil
	clear(s.repeats)
	s.kept = 0
	mute := make([]*stream, 0, len(s.mute))
	for st := range s.mute {
		mute = append(mute, st)
	}
	clear(s.mute)
	for c := range s.holes {
		c.letPass()
	}
	clear(s.holes)
	s.healLocked()
	clear(s.disks.full)
	clear(s.disks.slow)
	s.mutex.Unlock()
	for _, st := range mute {
		st.endUnavailable("what was said meanwhile is lost")
	}
	return missed
}

// maxPast bounds the remembered rules that are over.
const maxPast = 50

// Rules returns the faults that wait for requests, or have waited: the oldest first, of those that are over the last
// 50.
func (s *Set) Rules() []Rule {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	rules := append([]Rule{}, s.past...)
	for _, r := range s.rules {
		rules = append(rules, r.shown())
	}
	return rules
}

// retire remembers a rule that is over. The mutex is held.
func (s *Set) retire(r *rule) {
	shown := r.shown()
	shown.Over = true
	s.past = append(s.past, shown)
	s.past = s.past[max(0, len(s.past)-maxPast):]
}

// Messages returns the latest messages of clients and servers, and the orders between them: at most 200, with numbers
// after a given one, in their order. Pings and pongs are not listed, and messages of before the first call only where
// there are Controls.
func (s *Set) Messages(after uint64) []Message { return s.messages.after(after) }
