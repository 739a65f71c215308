package streams

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/server/group/slowest"
)

const (
	// maxStreamBytes bounds a stream's requests without a first answer: at the bound it is not read any more. The last
	// request may go beyond.
	maxStreamBytes = 4 << 20
	// maxLocalBytes bounds the requests of all streams of a server that leads. Streams that bring more are not read
	// until there is room.
	maxLocalBytes = 64 << 20
	// maxRelayBytes is the same bound on a server that does not lead: the leader holds the requests of all servers.
	maxRelayBytes = 16 << 20
)

// Set is the open streams of the group on this server.
type Set struct {
	config  Config
	mutex   sync.Mutex
	open    map[coordination.StreamID]*Stream
	last    coordination.StreamID
	closing bool
	link    Link        // of all of them; nil while there is no leader
	muted   atomic.Bool // a stream found that it may not speak, and wakeMuted has not come to it since
	// Budget bounds their requests. A request holds its bytes from before its stream hands it to the leader
	// until its first answer, a refusal, or the end of its stream: an acquire that waits in a queue has been
	// answered, so it holds nothing, and the release that it waits for always comes through.
	Budget *budget.Budget
	// Copies bounds the descriptions that a leader elsewhere has sent and their clients have not read.
	Copies *budget.Budget
}

// Config configures the streams of a group.
type Config struct {
	Core Core
	// Clock is the rings'.
	Clock clock.Clock
	// Room is the space in the queue of the group.
	Room *budget.Budget
	// Linger bounds the time in which the client of a stream that has ended may read the end.
	Linger time.Duration
	// OutboundBytes bounds the replies that wait for a client before it is cut off.
	OutboundBytes int
	// Slow keeps the slowest requests.
	Slow *slowest.Recorder
	// Remind reports whether clients are pinged by the real clock, too; nil: never.
	Remind func() bool
}

// Core is the group as its streams use it.
type Core interface {
	// Kick handles what is in the queue, on the caller's goroutine if the server is quiet. The caller holds no
	// lock.
	Kick()
	// Ring makes the group's own goroutine do so. It may be called under any lock.
	Ring()
	// Put puts a message of a stream to the leader, which is here, into the queue.
	Put(s Forwarded)
	// MaySpeak reports whether a majority has confirmed lately that this server leads, and it does not hand over.
	MaySpeak() bool
	// IsQuiet reports whether this server hands over: no server is to speak to clients.
	IsQuiet() bool
	// Member returns the id of this server.
	Member() uint64
	// Traced notes the trace of a client that has a session from now on.
	Traced(attached *coordination.Message, trace string)
}

// ErrStopped is the end of everything that waits for a group that is stopped.
var ErrStopped = errors.New("the server is stopping")

// Nonce returns a random number, not 0.
func Nonce() uint64 { return max(1, rand.Uint64()) }

// New returns an empty set.
func New(config Config) *Set {
	set := &Set{config: config, last: coordination.StreamID(rand.Uint32()),
		open:   make(map[coordination.StreamID]*Stream),
		Budget: budget.New("requests of streams", maxRelayBytes),
		Copies: budget.New("descriptions by the leader", maxCopiedBytes)}
	return set
}

func (set *Set) nextID() coordination.StreamID {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	set.last++
	return set.last
}

// add adds a stream, which follows the present link. Errors: ErrStopped.
func (set *Set) add(s *Stream) error {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if s.link = set.link; s.link == nil {
		s.front.Orphan(set.config.Clock.Now())
	}
	if set.closing {
		return ErrStopped
	}
	set.open[s.id] = s
	return nil
}

func (set *Set) remove(s *Stream) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	delete(set.open, s.id)
}

// Find returns the open stream with an id, nil if it is gone.
func (set *Set) Find(id coordination.StreamID) *Stream {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.open[id]
}

// LocalLink returns the link to the leader on this server, nil if it does not lead.
func (set *Set) LocalLink() *Local {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	link, _ := set.link.(*Local)
	return link
}

// Follow turns all streams, and those to come, to the leader behind link; nil: to no leader.
func (set *Set) Follow(link Link) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	set.followLocked(link)
}

func (set *Set) followLocked(link Link) {
	for _, s := range set.redirect(link) {
		s.Follow(link)
	}
}

// redirect makes link the present one, which streams to come follow, and returns the open ones in the order in which
// they have to follow it: those with a session first, so that a start finds the stream whose session it wants. The
// mutex is held until they have.
func (set *Set) redirect(link Link) []*Stream {
	set.link = link
	if _, leads := link.(*Local); leads {
		set.Budget.SetLimit(maxLocalBytes)
	} else {
		set.Budget.SetLimit(maxRelayBytes)
	}
	streams := make([]*Stream, 0, len(set.open))
	var later []*Stream
	for _, s := range set.open {
		if s.attached() {
			streams = append(streams, s)
		} else {
			later = append(later, s)
		}
	}
	return append(streams, later...)
}

// Present returns the link to the leader, nil without a leader.
func (set *Set) Present() Link {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.link
}

// Led reports whether there is a leader to speak to.
func (set *Set) Led() bool {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.link != nil
}

// Speaking returns the present link if its leader lets this server speak to clients, otherwise nil.
func (set *Set) Speaking() Link {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == nil || !set.link.MaySpeak() {
		return nil
	}
	return set.link
}

// grants reports in one look whether link is the present one and its leader may speak.
func (set *Set) grants(link *Local) bool {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.link == Link(link) && link.MaySpeak()
}

// unfollow makes all streams wait for the next leader, if they follow link.
func (set *Set) unfollow(link Link) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == link {
		set.followLocked(nil)
	}
}

// join makes all streams follow link, if they follow no other.
func (set *Set) join(link Link) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == nil {
		set.followLocked(link)
	}
}

// wakeMuted wakes the streams that were mute when they had something to send, if this server may speak by now. Each
// stream notes that it was mute (muted): the right to speak may go and come back between two looks.
func (set *Set) wakeMuted() {
	if set.Speaking() == nil || !set.muted.Swap(false) {
		return
	}
	set.mutex.Lock()
	defer set.mutex.Unlock()
	for _, s := range set.open {
		s.mutex.Lock()
		s.settle(coordination.Forward{})
		s.mutex.Unlock()
	}
}

// EndAll refuses new streams and ends all open ones.
func (set *Set) EndAll(refusal *coordination.Refusal) {
	set.mutex.Lock()
	set.closing = true
	streams := slices.Collect(maps.Values(set.open))
	set.mutex.Unlock()
	for _, s := range streams {
		s.End(refusal)
	}
}

// Count counts the open streams.
func (set *Set) Count() int {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return len(set.open)
}

// All returns the open streams.
func (set *Set) All() []*Stream {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return slices.Collect(maps.Values(set.open))
}
