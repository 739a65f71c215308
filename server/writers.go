package server

import (
	"runtime"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
)

// writers are the goroutines that send replies. A stream is handed to them when it has something to send, and is sent
// by one at a time. As many as there are processors do the work; when all of them are held up by clients that do not
// read, more are started, which end when the work is done.
type writers struct {
	mutex    sync.Mutex
	work     sync.Cond
	ready    []*session // first in, first out, from position first
	first    int
	idle     int
	running  int
	taken    uint64 // streams ever taken from ready
	watching bool
	closed   bool
	done     sync.WaitGroup
}

// stallPatience is how long streams wait for writers that are all held up before another writer is started.
const stallPatience = 5 * time.Millisecond

func newWriters() *writers {
	w := &writers{}
	w.work.L = &w.mutex
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for range max(2, runtime.GOMAXPROCS(0)) {
		w.start()
	}
	return w
}

// start adds a writer. The mutex is held.
func (w *writers) start() {
	w.running++
	w.done.Add(1)
	go w.run()
}

// schedule has the stream sent. The caller sees to it that a stream is scheduled once only.
func (w *writers) schedule(s *session) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.closed {
		return
	}
	w.ready = append(w.ready, s)
	if w.idle > 0 {
		w.work.Signal()
	} else if !w.watching {
		w.watching = true
		w.watch()
	}
}

// watch starts another writer if nothing is taken for a while. The mutex is held.
func (w *writers) watch() {
	taken := w.taken
	time.AfterFunc(stallPatience, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if w.closed || w.first == len(w.ready) {
			w.watching = false
			return
		}
		if w.taken == taken {
			w.start()
		}
		w.watch()
	})
}

func (w *writers) run() {
	defer w.done.Done()
	var buffer []coordination.Reply
	for s := w.next(); s != nil; s = w.next() {
		for more := true; more; {
			buffer, more = s.send(buffer)
		}
	}
}

// next waits for a stream. It returns nil when this writer is one too many, or all are to end.
func (w *writers) next() *session {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for w.first == len(w.ready) {
		if w.closed || w.running > max(2, runtime.GOMAXPROCS(0)) {
			w.running--
			return nil
		}
		w.idle++
		w.work.Wait()
		w.idle--
	}
	s := w.ready[w.first]
	w.ready[w.first] = nil
	w.first++
	w.taken++
	if w.first == len(w.ready) {
		w.ready, w.first = w.ready[:0], 0
	}
	return s
}

// close ends the writers once what is scheduled is sent.
func (w *writers) close() {
	w.mutex.Lock()
	w.closed = true
	w.work.Broadcast()
	w.mutex.Unlock()
	w.done.Wait()
}
