package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/coordination"
)

// Violation is a promise that was not kept.
type Violation struct {
	At   time.Duration
	Kind string // belief, log, model, time, watch, expiry or answers
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%v %s: %s", v.At, v.Kind, v.Text) }

// Options lists facts about a run that its history does not have.
type Options struct {
	// Healed is the end of all faults. A stream that is alive Patience after an answer was due, and after Healed, has
	// to have it.
	Healed, Patience time.Duration
	// Drift is the share by which clocks may be wrong.
	Drift float64
	// WithoutModel leaves out everything that the model decides: it does not know the limit of the whole state.
	WithoutModel bool
	// Foreign is the path of a coordination node whose clients do not write the history; "" without one.
	Foreign string
}

// Extent measures the part of a history that was judged.
type Extent struct {
	Requests int
	Compared int // answers, with the model's
	Doubtful int // requests of streams that the log does not distinguish
}

// violationsMax bounds the violations reported for one run: one defect makes many.
const violationsMax = 20

// judge is the work on one history.
type judge struct {
	options    Options
	events     []Event
	streams    map[int]*stream
	sessions   map[sessionKey][]*stream // with this session, in the order of their starts
	newest     map[int]int              // stream of each client
	order      []*request               // all, as sent
	log        []logged                 // by index
	first      map[coordination.Index]*coordination.Entry
	highest    point // executed so far
	nodes      map[coordination.NodeID]*node
	violations []Violation
	compared   int
}

// sessionKey names a session: its node's path and its id.
type sessionKey struct {
	path    string
	session uint64
}

func (j *judge) report(at time.Duration, kind, format string, args ...any) {
	if len(j.violations) < violationsMax {
		j.violations = append(j.violations, Violation{at, kind, fmt.Sprintf(format, args...)})
	}
}

// never is the place in the history of an event that did not happen.
const never = int(^uint(0) >> 1)

// stream is one stream with all that its client sent and received.
type stream struct {
	number, client int
	path           string
	timeout        time.Duration // of the session
	session        uint64        // 0: the client never learnt it
	asked          time.Duration // when its start was sent
	opened         int           // place in the history, like the following ones
	started, ended int
	abandoned      bool
	failure        string
	requests       []*request               // in the order of their sequence numbers at the server
	byID           map[uint64]*request      // a stop has id 0
	pings          map[uint64]time.Duration // sent and not answered
	proofs         []proof
	doubtful       bool // which requests the log has of it is not certain
}

// proof is a sign of life: an answer that was read at a place in the history proves that the session was alive at the
// time at which its request was sent.
type proof struct {
	place int
	sent  time.Duration
}

// request is one request with the answers to it.
type request struct {
	model.Request
	stream   *stream
	sequence coordination.Sequence
	place    int
	at       time.Duration
	executed point    // 0: it is not in the log
	answers  []answer // of the model
	got      []got

	known point // the clients had seen all effects up to this place when the request was sent
	watch *watch
}

// answer is one by the model, and the command that brought it about.
type answer struct {
	model.Reply
	by point
}

// got is an answer that a client read.
type got struct {
	model.Reply
	place int
	at    time.Duration
}

func (q *request) String() string {
	return fmt.Sprintf("%s %q (request %d of stream %d, client %d, session %d)", q.Kind, q.Name, q.ReqID,
		q.stream.number, q.stream.client, q.stream.session)
}

// final reports whether a reply is the last one to its request, watches aside.
func final(r *model.Reply) bool { return r.Kind == model.Result || r.Kind == model.Stopped }

// logged is an entry and where in the history a server executed it first.
type logged struct {
	entry *coordination.Entry
	place int
	at    time.Duration
}

// find returns the entry at a place in the log.
func (j *judge) find(at point) *logged {
	i, _ := slices.BinarySearchFunc(j.log, at.index(), func(l logged, index coordination.Index) int {
		return cmp.Compare(l.entry.Index, index)
	})
	return &j.log[i]
}

// point is a place in the log: a command of an entry, or the end of one. Clients see states between two commands.
type point uint64

const pointsOfEntry = 2 * coordination.MaxEntryCommands

func pointOf(p coordination.Position) point { return point(p.Index)*pointsOfEntry + point(p.Place) }

func endOf(index coordination.Index) point { return point(index+1)*pointsOfEntry - 1 }

func (p point) index() coordination.Index { return coordination.Index(p / pointsOfEntry) }

// String is the index, and the place among the commands of the entry where it is not the first.
func (p point) String() string {
	if p%pointsOfEntry == 0 {
		return fmt.Sprint(p.index())
	}
	return fmt.Sprintf("%d.%d", p.index(), p%pointsOfEntry)
}

// node is a coordination node as the log makes it.
type node struct {
	path    string
	strict  bool // reads
	replay  *model.Replay
	epochs  map[uint64]coordination.Epoch // of the last logged attach of each session
	attach  map[epochKey]int              // place in the history at which it was executed
	nonces  map[uint64]uint64             // sessions
	gone    map[uint64]point              // since when sessions are ended
	streams map[epochKey]*stream
	done    map[requestKey]bool
	tickets map[coordination.Position]uint64 // a number for each command of a request
	senders map[uint64]*request              // by ticket
	history map[string][]version
	changes map[string][]change
}

type epochKey struct {
	session uint64
	epoch   coordination.Epoch
}

type requestKey struct {
	epochKey
	sequence coordination.Sequence
}

// version is a semaphore from a command on; nil does not exist.
type version struct {
	from  point
	state *model.Description
}

type change struct {
	model.Change
	by point
}

func newNode(path string) *node {
	return &node{path: path, replay: model.NewReplay(), epochs: make(map[uint64]coordination.Epoch),
		attach: make(map[epochKey]int), nonces: make(map[uint64]uint64), gone: make(map[uint64]point),
		streams: make(map[epochKey]*stream),
		done:    make(map[requestKey]bool), tickets: make(map[coordination.Position]uint64),
		senders: make(map[uint64]*request), history: make(map[string][]version), changes: make(map[string][]change)}
}

// watch is set by a describe that was answered. The description was made between two commands: at or after from, and
// before next.
type watch struct {
	from, next point
	fired      bool
}

// nodeOf returns the node of a stream, nil if it was dropped.
func (j *judge) nodeOf(s *stream) *node {
	for _, n := range j.nodes {
		if n.path == s.path {
			return n
		}
	}
	return nil
}

func (c *change) concerns(q *request) bool { return q.WatchData && c.Data || q.WatchOwners && c.Owners }

func show(r *model.Reply) string {
	text := string(r.Kind)
	switch r.Kind {
	case model.Result:
		text = fmt.Sprintf("%d %q", r.Status, r.Text)
		if r.To == model.Acquire || r.To == model.Release {
			text += fmt.Sprintf(" done=%v", r.Done)
		}
	case model.ChangedBy:
		text = fmt.Sprintf("changed data=%v owners=%v", r.DataChanged, r.OwnersChanged)
	}
	if r.Description != nil {
		text += fmt.Sprintf(" %+v", *r.Description)
	}
	return text
}

// lasts returns the time for which a session lives after a sign of life, by the clock of a client that may be slow.
func (j *judge) lasts(timeout time.Duration) time.Duration {
	return time.Duration(float64(timeout) * (1 - j.options.Drift))
}
