package streams

import "github.com/coordd/coordd/coordination"

// maxCopiedBytes is how much the descriptions may have together that a server has of another one, which
// leads, and that its clients have not taken. A leader begins no further one beyond that, so it is the last
// of them at most that goes beyond.
const maxCopiedBytes = 64 << 20

// copied takes note of a description that the stream has a copy of. The mutex is held.
func (s *Stream) copied(d *coordination.SemaphoreDescription) {
	if s.copies == nil {
		s.copies = make(map[*coordination.SemaphoreDescription]int)
	}
	n := d.Bytes()
	s.copies[d] = n
	s.set.Copies.Adjust(n)
}

// Gone says that the description of a reply has left this server.
func (s *Stream) Gone(d *coordination.SemaphoreDescription) {
	s.mutex.Lock()
	n := s.copies[d]
	delete(s.copies, d)
	s.mutex.Unlock()
	s.set.Copies.Release(n)
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
	s.set.Copies.Release(n)
}
