package sessions

import (
	"runtime"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/server/calls"
)

// writers are the goroutines that send replies. A stream is handed to them when it has something to send, and
// is sent by one at a time. They work in two lanes: a stream whose client may have no room left can hold up
// its writer for as long as the client likes, so it never gets one of those that serve the others.
type writers struct {
	prompt lane // of streams that are sent without waiting for their clients
	slow   lane // of all others

	encoding *budget.Budget // large answers that are encoded at a time
	lending  *budget.Budget // memory of their own that they have until their clients have read them
}

// lane is some writers and what they have to do. As many as there are processors do the work; where clients
// may hold up all of them more are started, which end when the work is done.
type lane struct {
	mutex    sync.Mutex
	work     sync.Cond
	send     func(s *Session, buffer []coordination.Reply) (_ []coordination.Reply, more bool)
	grows    bool
	done     sync.WaitGroup
	ready    []*Session // first in, first out, from position first
	first    int
	idle     int
	running  int
	taken    uint64 // streams ever taken from ready
	started  uint64 // writers, by the last look of watch
	watching bool
	closed   bool
}

const (
	// lentUnitBytes is the granularity of writers.lending.
	lentUnitBytes = 1 << 20
	// MostLentBytes bounds the memory that large answers have of their own, besides the data that they share with the
	// state. It is enough for the largest (TestLargestAnswerIsLentFor).
	MostLentBytes = 64 << 20
	// stallPatience is the streams' wait for writers that are all held up before others are started.
	stallPatience = 5 * time.Millisecond
	// writersPerStall bounds how many are started then.
	writersPerStall = 64
)

func newWriters() *writers {
	w := &writers{encoding: budget.New("large answers encoded at once", calls.FewAtOnce()),
		lending: budget.New("large answers", MostLentBytes)}
	w.prompt.open((*Session).sendPromptly, false)
	w.slow.open((*Session).sendSlowly, true)
	return w
}

func (l *lane) open(send func(*Session, []coordination.Reply) ([]coordination.Reply, bool), grows bool) {
	l.work.L, l.send, l.grows = &l.mutex, send, grows
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for range l.usual() {
		l.start()
	}
}

// usual is the number of writers while none is held up.
func (*lane) usual() int { return max(2, runtime.GOMAXPROCS(0)) }

// start adds a writer. The mutex is held.
func (l *lane) start() {
	l.running++
	l.done.Add(1)
	go l.run()
}

// schedule has the stream sent. The caller sees to it that a stream is scheduled once only.
func (w *writers) schedule(s *Session) {
	if s.hasRoom() {
		w.prompt.schedule(s)
	} else {
		w.slow.schedule(s)
	}
}

func (l *lane) schedule(s *Session) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return
	}
	l.ready = append(l.ready, s)
	if l.idle > 0 {
		l.work.Signal()
	} else if l.grows && !l.watching {
		l.watching = true
		l.watch()
	}
}

// watch starts more writers if for a while nothing was taken but what those took that were started last. The
// mutex is held.
func (l *lane) watch() {
	expected := l.taken + l.started
	time.AfterFunc(stallPatience, func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if l.closed || l.first == len(l.ready) {
			l.watching, l.started = false, 0
			return
		}
		l.started = 0
		if l.taken <= expected {
			l.started = uint64(min(len(l.ready)-l.first, writersPerStall))
		}
		for range l.started {
			l.start()
		}
		l.watch()
	})
}

func (l *lane) run() {
	defer l.done.Done()
	var buffer []coordination.Reply
	for s := l.next(); s != nil; s = l.next() {
		for more := true; more; {
			buffer, more = l.send(s, buffer)
		}
	}
}

// next waits for a stream. It returns nil when this writer is to end, because there are more than are needed
// or because all end.
func (l *lane) next() *Session {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.first == len(l.ready) {
		if l.closed || l.running > l.usual() {
			l.running--
			return nil
		}
		l.idle++
		l.work.Wait()
		l.idle--
	}
	s := l.ready[l.first]
	l.ready[l.first] = nil
	l.first++
	l.taken++
	if l.first == len(l.ready) {
		l.ready, l.first = l.ready[:0], 0
	}
	return s
}

// count returns how many writers there are, and how many of them have nothing to do.
func (l *lane) count() (running, idle int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.running, l.idle
}

// close ends the writers once what is scheduled is sent.
func (w *writers) close() {
	w.prompt.close() // what may hold it up goes to the other lane
	w.slow.close()
}

func (l *lane) close() {
	l.mutex.Lock()
	l.closed = true
	l.work.Broadcast()
	l.mutex.Unlock()
	l.done.Wait()
}
