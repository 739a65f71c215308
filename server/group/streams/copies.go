package streams

import (
	"sync"

	"github.com/coordd/coordd/coordination"
)

// maxCopiedBytes is how much the descriptions may have together that a server has of another one, which
// leads, and that its clients have not taken. A leader begins no further one beyond that, so it is the last
// of them at most that goes beyond.
const maxCopiedBytes = 64 << 20

// copies count what the streams of a server have of descriptions of a leader elsewhere.
type copies struct {
	mutex sync.Mutex
	bytes int
	freed func() // see onFreed
}

func (c *copies) add(bytes int) {
	c.mutex.Lock()
	c.bytes += bytes
	freed := c.freed
	c.mutex.Unlock()
	if bytes < 0 && freed != nil {
		freed()
	}
}

// room is how much more there may be.
func (c *copies) room() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return max(0, maxCopiedBytes-c.bytes)
}

// Held returns how much there is.
func (c *copies) Held() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.bytes
}

// onFreed has freed called when there is more room; nil: nobody wants to know.
func (c *copies) onFreed(freed func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.freed = freed
}

// copied takes note of a description that the stream has a copy of. The mutex is held.
func (s *Stream) copied(d *coordination.SemaphoreDescription) {
	if s.copies == nil {
		s.copies = make(map[*coordination.SemaphoreDescription]int)
	}
	n := d.Bytes()
	s.copies[d] = n
	s.set.Copies.add(n)
}

// Gone says that the description of a reply has left this server.
func (s *Stream) Gone(d *coordination.SemaphoreDescription) {
	s.mutex.Lock()
	n := s.copies[d]
	delete(s.copies, d)
	s.mutex.Unlock()
	if n > 0 {
		s.set.Copies.add(-n)
	}
}

// AllGone says that nothing is left on this server of what the client was told.
func (s *Stream) AllGone() {
	s.mutex.Lock()
	n := 0
	for _, bytes := range s.copies {
		n += bytes
	}
	s.copies = nil
	s.closed = true
	s.mutex.Unlock()
	if n > 0 {
		s.set.Copies.add(-n)
	}
}
