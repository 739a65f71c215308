package faults

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// Drop is a way to lose a stream.
type Drop string

// The ways.
const (
	// Clean: the stream ends with Failure UNAVAILABLE "Link failure", as when a server stops or loses its
	// leader. The session is detached at once.
	Clean Drop = "clean"
	// Reset: the connection is reset, with all streams that it has. The sessions are detached at once.
	Reset Drop = "reset"
	// Silence: the server says nothing any more on the stream, while TCP and HTTP/2 answer. What the client
	// asks for is executed. As the client cannot answer pings, the server detaches its session after a third
	// of the session's timeout, 5 s at most.
	Silence Drop = "silence"
	// BlackHole: nothing passes on the connection in either direction, and neither end is notified. The sessions behind
	// it are detached as with Silence.
	BlackHole Drop = "black-hole"
)

// Drops are all ways.
func Drops() []Drop { return []Drop{Clean, Reset, Silence, BlackHole} }

// DropStreams loses the streams that are open and that f picks, and returns how many. Reset takes it back as
// far as it lasts. A stream that the client opens meanwhile is not concerned. Of Clean and Reset, the
// sessions are detached, or about to be, when it returns. Without such a stream the error is ErrMissed, unless
// that may be (MayMiss).
func (s *Set) DropStreams(f Filter, how Drop, more ...Option) (dropped int, err error) {
	if !slices.Contains(Drops(), how) {
		return 0, fmt.Errorf("no way to drop streams is called %q; there are %v", how, Drops())
	}
	picked := s.pick(f)
	var dropping sync.WaitGroup
	for _, st := range picked {
		dropping.Go(func() {
			st.drop(how)
			if how == Clean || how == Reset {
				st.awaitEnd()
			}
		})
	}
	dropping.Wait()
	return s.hit(len(picked), "stream", f, more)
}

// hit is the result of a fault that has met n things of a kind.
func (s *Set) hit(n int, kind string, f Filter, more []Option) (int, error) {
	var o options
	if o.apply(more); n == 0 && !o.mayMiss {
		f.Node = s.Path(f.Node)
		return 0, s.missed(kind, f)
	}
	return n, nil
}

// dropPatience bounds the wait for a stream's end, by the real clock.
const dropPatience = 5 * time.Second

// awaitEnd waits until the server has noticed that a stream is over, so that what comes behind the order,
// such as a turn of the clock, finds the session detached, or about to be.
func (s *stream) awaitEnd() {
	select {
	case <-s.gone:
	case <-time.After(dropPatience):
	}
}

// DetachSession ends the stream of a session as Clean does. From then on the session's timeout runs. Without a
// stream the error is ErrMissed, unless that may be (MayMiss).
func (s *Set) DetachSession(node string, session uint64, more ...Option) error {
	_, err := s.DropStreams(Filter{Node: node, Session: session}, Clean, more...)
	return err
}

// pick are the open streams that a filter is about, in the order in which they were opened.
func (s *Set) pick(f Filter) []*stream {
	f.Node = s.Path(f.Node)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var picked []*stream
	for st := range s.streams {
		if f.picks(st.whose()) {
			picked = append(picked, st)
		}
	}
	slices.SortFunc(picked, func(a, b *stream) int { return int(a.number) - int(b.number) })
	return picked
}

// whose returns the request's server, client and session as far as the stream knows them.
func (s *stream) whose() *Request {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return &Request{Server: s.server, Client: s.client, SDK: s.sdk, Node: s.node, Session: s.session}
}

func (s *stream) drop(how Drop) {
	switch how {
	case Clean:
		s.failWith(Refusal{Status: Ydb.StatusIds_UNAVAILABLE, Text: linkFailure, Ends: true})
	case Reset:
		s.set.resetConn(s.client)
	case Silence:
		s.silence()
	case BlackHole:
		s.set.swallow(s.client)
	}
}

// silence has the client hear nothing more.
func (s *stream) silence() {
	s.set.mutex.Lock()
	defer s.set.mutex.Unlock()
	if _, open := s.set.streams[s]; !open {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.mode == speaking {
		s.mode = silent
		s.set.mute[s] = struct{}{}
	}
}

// SpuriousNotice notifies watches of the open streams that f picks of a change, with both flags false, and returns
// their number: all that are armed, or those of the semaphore that is named. The protocol allows it at any time. Those
// watches have fired: a real change after that is not notified. Without such a watch the error is ErrMissed, unless
// that may be (MayMiss).
func (s *Set) SpuriousNotice(f Filter, semaphore string, more ...Option) (noticed int, err error) {
	for _, st := range s.pick(f) {
		noticed += st.notice(semaphore)
	}
	kind := "watch"
	if semaphore != "" {
		kind = fmt.Sprintf("watch of semaphore %q", semaphore)
	}
	return s.hit(noticed, kind, f, more)
}

func (s *stream) notice(semaphore string) (noticed int) {
	s.mutex.Lock()
	var fire []uint64
	for name, id := range s.watches {
		if s.mode == speaking && (semaphore == "" || semaphore == name) {
			fire = append(fire, id)
			delete(s.watches, name)
			s.told = put(s.told, id, true)
		}
	}
	s.mutex.Unlock()
	slices.Sort(fire)
	for _, id := range fire {
		changed := &serverMessage{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_{
			DescribeSemaphoreChanged: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged{ReqId: id}}}
		if s.say(changed) == nil {
			noticed++
		}
	}
	return noticed
}
