package model

// read is a strict describe that is not answered (§4.5): it needs its turn among what its node is asked for, and a
// proof that the leader still leads, which is asked for after it came. Later requests of its stream wait for it.
type read struct {
	call
	turn, proven bool
}

// reads are those that wait for a proof. One is asked for at a time.
type reads struct {
	asked []*read // before the proof that is under way was asked for
	next  []*read
}

// read takes a strict describe.
func (m *Model) read(c call) {
	r := &read{call: c, turn: len(m.queue) == 0}
	c.stream.reads++
	if m.reads.asked == nil {
		m.reads.asked = []*read{r}
	} else {
		m.mark(markReadsShareAProof)
		m.reads.next = append(m.reads.next, r)
	}
	if !r.turn {
		m.later(nil, func() {
			r.turn = true
			m.answerRead(r)
		})
	}
}

// Settle lets the proofs come that are under way.
func (m *Model) Settle() {
	for m.reads.asked != nil {
		held := m.held
		m.held = true // all that the proof is for are answered before anything that waits for them is done
		for _, r := range m.reads.asked {
			r.proven = true
			m.answerRead(r)
		}
		m.reads.asked, m.reads.next = m.reads.next, nil
		if !held {
			m.drain()
		}
	}
}

// answerRead answers a describe whose turn has come, and does what has waited for it.
func (m *Model) answerRead(r *read) {
	s := r.stream
	if !r.turn || !r.proven || s.ending != Open {
		return
	}
	m.execute(r.call)
	s.reads--
	for len(s.waiting) > 0 && !s.waitsToRead(s.waiting[0]) {
		c := s.waiting[0]
		s.waiting = s.waiting[1:]
		m.mark(markWaitedForARead)
		m.turn(c)
	}
}

// waitsToRead reports whether a request has to wait for strict describes of its stream. Another one need not.
func (s *Stream) waitsToRead(c call) bool { return s.reads > 0 && c.Kind != Describe }

// abandonReads does what has waited for the describes of a stream whose client is gone.
func (m *Model) abandonReads(s *Stream) {
	for _, c := range s.waiting {
		if c.Kind != Describe {
			m.mark(markAbandonedRead)
			m.turn(c)
		}
	}
	s.waiting = nil
}
