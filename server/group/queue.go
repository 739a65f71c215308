package group

import (
	"sync"
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/streams"
)

// event is a request in the queue: a call or, with call nil, a message of a stream.
type event struct {
	streams.Forwarded
	call  *call
	bytes int
}

// gathers reports whether e may wait for the end of a write of the log: it has to go there itself, or nobody waits for
// its outcome. Reads, resumed streams and attaches to an existing session do not wait for the disk.
func (e *event) gathers() bool {
	switch f := &e.Forward; {
	case e.call != nil:
		return e.call.read == nil
	case f.Request != nil:
		return f.Request.Kind != coordination.RequestDescribe
	case f.Attach != nil:
		return f.Attach.Session == 0
	}
	return e.Forward.Detach || e.Forward.Lost
}

// storeEvent is one call of raftstore.Handler, for the next turn.
type storeEvent struct {
	entries   []raftstore.Entry
	at        coordination.Instant // with entries: when they came
	leading   uint64               // not 0: this server leads the term
	following bool
	term      uint64 // with following: in which
	leader    uint64 // with following: who leads, 0 if nobody is known to
	barrier   uint64 // not 0: the number of a read question that has been answered
	index     uint64 // with barrier: the read index
	restored  uint64 // not 0: another member's state as of this index is stored now
	failed    error
}

// glance estimates the work that e is, from the first bytes of its entries: their commands, but one for each entry at
// least, and their bytes. long reports whether all rows, sessions or streams are gone through, which may take long
// however small e is.
func (e *storeEvent) glance() (count, volume int, long bool) {
	long = e.restored != 0 || e.leading != 0 || e.following
	for i := range e.entries {
		data := e.entries[i].Data
		commands, drops := codec.Glance(data)
		count += max(1, commands)
		volume += len(data)
		long = long || drops
	}
	return count, volume, long
}

// The bounds of a queue for a short turn: some milliseconds of work.
const (
	shortTurnEvents = 1024
	shortTurnBytes  = 1 << 20
)

// queue holds requests and the log's news that no turn has handled yet. They wait apart: when too much is in flight,
// requests stay here while the log goes on.
type queue struct {
	mutex    sync.Mutex
	requests []event
	bytes    int // of requests
	// bounds the bytes of requests here and of those that were admitted and are on their way here
	room *budget.Budget
	held bool // requests stay until there is news of the log
	// writing reports whether the log is being written for earlier requests; nil: never. Requests gather
	// meanwhile, unless one of them is pressing.
	writing  func() bool
	pressing bool
	store    []storeEvent
	count    int       // commands of the entries in store, see glance
	volume   int       // bytes of them
	long     bool      // something in store takes long
	bell     turn.Bell // the group's own goroutine listens
}

func newQueue() *queue {
	return &queue{bell: turn.NewBell(), room: budget.New("queued requests", maxQueuedBytes)}
}

// put adds a request; the caller kicks the group or rings the bell behind it. It never blocks: callers acquire room
// before they read the request.
func (q *queue) put(e event) {
	e.bytes = e.Size()
	q.mutex.Lock()
	q.requests = append(q.requests, e)
	q.bytes += e.bytes
	q.pressing = q.pressing || !e.gathers()
	q.mutex.Unlock()
	q.room.Adjust(e.bytes)
}

// empty reports whether there is nothing to handle now: requests that are held or gather do not count.
func (q *queue) empty() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return len(q.store) == 0 && (len(q.requests) == 0 || q.held || q.gathering())
}

// gathering reports whether requests stay here until the write that is under way has ended. The mutex is held;
// the log's own lock, which writing takes, is never held while something is left here.
func (q *queue) gathering() bool { return !q.pressing && q.writing != nil && q.writing() }

// length counts the requests.
func (q *queue) length() int {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return len(q.requests)
}

// putStore adds news of the log. The log calls Flush behind it, which takes a turn or rings the bell.
func (q *queue) putStore(e storeEvent) {
	count, volume, long := e.glance()
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.store = append(q.store, e)
	q.count += count
	q.volume += volume
	q.long = q.long || long
}

// takeStore exchanges the log's news for an empty slice.
func (q *queue) takeStore(empty []storeEvent) []storeEvent {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.takeStoreLocked(empty)
}

// takeLittle is takeStore if everything in the queue is little work; if not, ok is false and nothing is
// taken.
func (q *queue) takeLittle(empty []storeEvent) (events []storeEvent, ok bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.long || q.count+len(q.requests) > shortTurnEvents || q.volume+q.bytes > shortTurnBytes {
		return empty, false
	}
	return q.takeStoreLocked(empty), true
}

func (q *queue) takeStoreLocked(empty []storeEvent) []storeEvent {
	events := q.store
	q.store, q.count, q.volume, q.long, q.held = empty, 0, 0, false, false
	return events
}

// hold keeps requests waiting until there is news of the log.
func (q *queue) hold() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.held = true
}

// takeRequests exchanges the requests for an empty slice, unless they gather.
func (q *queue) takeRequests(empty []event) []event {
	q.mutex.Lock()
	if q.gathering() {
		q.mutex.Unlock()
		return empty
	}
	events, bytes := q.requests, q.bytes
	q.requests, q.bytes, q.pressing = empty, 0, false
	q.mutex.Unlock()
	q.room.Release(bytes)
	return events
}

// attempt is a command of a call on its way to a leader. It is the same for all leaders that are asked, but for
// repeated.
type attempt struct {
	command  coordination.Command
	encoded  []byte             // command in the stored format; nil as long as it goes to no other server
	since    coordination.Index // applied here when the call came
	repeated bool               // an earlier leader may have executed it
}

// call is a unary request that waits for the group: a command, or a read of the machine.
type call struct {
	attempt *attempt
	read    func(c *core) outcome.Outcome
	rows    int             // bounds the rows of the machine that read visits
	done    chan callAnswer // capacity 1
	claimed atomic.Bool     // by the holder of the turn, which answers it, or by the caller, which waits no more
}

type callAnswer struct {
	outcome outcome.Outcome
	err     error
}
