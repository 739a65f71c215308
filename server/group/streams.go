package group

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
)

// streamSet is the open streams of the group on this server.
type streamSet struct {
	mutex   sync.Mutex
	open    map[coordination.StreamID]*Stream
	last    coordination.StreamID
	closing bool
	link    leaderLink  // of all of them; nil while there is no leader
	muted   atomic.Bool // a stream found that it may not speak, and nobody has looked after it since
	budget  budget      // of their requests
	copies  copies      // of what another server has described to them
}

func newStreamSet() *streamSet {
	set := &streamSet{open: make(map[coordination.StreamID]*Stream)}
	set.budget.most.Store(maxRelayBytes)
	return set
}

func (set *streamSet) nextID() coordination.StreamID {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	set.last++
	return set.last
}

// add counts a stream in. Errors: ErrStopped.
func (set *streamSet) add(s *Stream) error {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if s.link = set.link; s.link == nil {
		s.front.Orphan(s.group.clock.Now())
	}
	if set.closing {
		return ErrStopped
	}
	set.open[s.id] = s
	return nil
}

func (set *streamSet) remove(s *Stream) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	delete(set.open, s.id)
}

func (set *streamSet) find(id coordination.StreamID) *Stream {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.open[id]
}

// localLink is the link to the leader on this server, nil if it does not lead.
func (set *streamSet) localLink() *localLink {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	link, _ := set.link.(*localLink)
	return link
}

// follow has all streams, and those to come, speak to the leader behind link; nil: there is none.
func (set *streamSet) follow(link leaderLink) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	set.followLocked(link)
}

func (set *streamSet) followLocked(link leaderLink) {
	for _, s := range set.redirect(link) {
		s.follow(link)
	}
}

// redirect has the streams to come speak to the leader behind link, and returns those that are there in the
// order in which they have to follow: a start must find the streams whose session it may want. The mutex is
// held until they have.
func (set *streamSet) redirect(link leaderLink) []*Stream {
	set.link = link
	if _, leads := link.(*localLink); leads {
		set.budget.limit(maxLocalBytes)
	} else {
		set.budget.limit(maxRelayBytes)
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

// present is the link to the leader, nil while there is none.
func (set *streamSet) present() leaderLink {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.link
}

// led reports whether there is a leader to speak to.
func (set *streamSet) led() bool {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return set.link != nil
}

// speaking is the link to the leader that lets this server speak at present, nil without a permit.
func (set *streamSet) speaking() leaderLink {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == nil || !set.link.maySpeak() {
		return nil
	}
	return set.link
}

// unfollow has all streams wait for the next leader, if they speak to the one behind link.
func (set *streamSet) unfollow(link leaderLink) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == link {
		set.followLocked(nil)
	}
}

// join has all streams speak to the leader behind link, if there is none yet.
func (set *streamSet) join(link leaderLink) {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	if set.link == nil {
		set.followLocked(link)
	}
}

// wakeMuted has the streams sent that were mute when they had something to send, if this server may speak by
// now. A stream says itself that it was mute: the right may come and go between two looks.
func (set *streamSet) wakeMuted() {
	if set.speaking() == nil || !set.muted.Swap(false) {
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

// endAll refuses new streams and ends all open ones.
func (set *streamSet) endAll(refusal *coordination.Refusal) {
	set.mutex.Lock()
	set.closing = true
	streams := slices.Collect(maps.Values(set.open))
	set.mutex.Unlock()
	for _, s := range streams {
		s.End(refusal)
	}
}

// count is how many streams are open.
func (set *streamSet) count() int {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return len(set.open)
}

// all is the open streams.
func (set *streamSet) all() []*Stream {
	set.mutex.Lock()
	defer set.mutex.Unlock()
	return slices.Collect(maps.Values(set.open))
}
