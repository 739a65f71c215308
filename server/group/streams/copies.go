package streams

import "github.com/coordd/coordd/coordination"

// maxCopiedBytes bounds the descriptions of a leader elsewhere that have not left this server. The leader begins no
// further one above the bound, so at most one goes beyond.
const maxCopiedBytes = 64 << 20

// copied notes a description of a leader elsewhere. The mutex is held.
func (s *Stream) copied(d *coordination.SemaphoreDescription) {
	if s.copies == nil {
		s.copies = make(map[*coordination.SemaphoreDescription]int)
	}
	n := d.Bytes()
	s.copies[d] = n
	s.set.Copies.Adjust(n)
}

// Gone notes that the description of a reply has left this server.
func (s *Stream) Gone(d *coordination.SemaphoreDescription) {
	s.mutex.Lock()
	n := s.copies[d]
	delete(s.copies, d)
	s.mutex.Unlock()
	s.set.Copies.Release(n)
}

// AllGone notes that all replies of the stream have left this server.
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
