package model

// call is a semaphore request, or a stop, on its way: the stream may have ended before its turn comes.
type call struct {
	Request
	stream  *Stream
	session *session
}

// ask hands a request over to the leader, unless it can be answered before that.
func (m *Model) ask(s *Stream, r Request) {
	if s.session.stopping {
		m.mark(markAskedWhileStopping)
		s.fail(BadSession, "Session is not attached")
		return
	}
	if r.Kind == Stop {
		s.session.stopping = true
	}
	c := call{Request: r, stream: s, session: s.session}
	if m.refusedAtOnce(c) {
		if len(m.queue) > 0 {
			m.mark(markRefusalOvertakes)
		}
		return
	}
	if len(s.waiting) > 0 || s.waitsToRead(c) {
		s.waiting = append(s.waiting, c)
		return
	}
	m.turn(c)
}

// turn is a request that need not wait for a describe.
func (m *Model) turn(c call) {
	if c.Kind == Describe && m.node.config.ReadMode == 1 {
		m.read(c)
		return
	}
	if c.Kind == Describe {
		// It must not overtake a write, but has no need to wait for anything else (§4.5).
		if len(m.queue) == 0 {
			m.execute(c)
			return
		}
		m.mark(markDescribeWaits)
		m.later(nil, func() { m.execute(c) })
		return
	}
	m.later(c.session, func() { m.execute(c) })
}

// execute is a request's turn. Whether its stream is still there does not matter, but its session must be.
func (m *Model) execute(c call) {
	if m.findSession(c.session.id) != c.session {
		return
	}
	if c.stream.ending != Open {
		m.mark(markExecutedAfterEnd)
	}
	switch c.Kind {
	case Stop:
		m.stop(c)
	case Create:
		m.createSemaphore(c)
	case Update:
		m.updateSemaphore(c)
	case Delete:
		m.deleteSemaphore(c)
	case Acquire:
		m.acquire(c)
	case Release:
		m.release(c)
	case Describe:
		m.describe(c)
	default:
		panic("no such request: " + string(c.Kind))
	}
}

// refusedAtOnce makes the checks that do not ask the leader (§3.2 to §3.4), in their order. It reports
// whether the request has been answered by one of them.
func (m *Model) refusedAtOnce(c call) bool {
	switch c.Kind {
	case Create:
		switch {
		case c.Limit == 0:
			m.refuse(c, markLimitZero, BadRequest, "Semaphores must have limit > 0")
			return true
		case len(c.Name) > 1024:
			m.refuse(c, markCreateNameTooLong, BadRequest, "Semaphore name is too long")
			return true
		case len(c.Data) > 1048576:
			m.refuse(c, markCreateDataTooLarge, BadRequest, "Semaphore data is too large")
			return true
		}
	case Update:
		switch {
		case len(c.Name) > 1024:
			m.refuse(c, markUpdateNameTooLong, BadRequest, "Semaphore name is too long")
			return true
		case len(c.Data) > 1048576:
			m.refuse(c, markUpdateDataTooLarge, BadRequest, "Semaphore data is too large")
			return true
		}
	case Acquire:
		switch {
		case c.Count == 0:
			m.refuse(c, markCountZero, BadRequest, "Acquire must have count > 0")
			return true
		case c.TimeoutMillis > 86400000 && c.TimeoutMillis != Infinite:
			m.refuse(c, markAcquireTimeoutRange, BadRequest, "Acquire timeout is out of range")
			return true
		case len(c.Data) > 1048576:
			m.refuse(c, markAcquireDataTooLarge, BadRequest, "Acquire data is too large")
			return true
		}
	}
	return false
}

// refuse answers a request with an error; the stream goes on.
func (m *Model) refuse(c call, why Mark, status Status, text string) {
	m.mark(why)
	c.stream.send(Reply{Kind: Result, To: c.Kind, ReqID: c.ReqID, Status: status, Text: text})
}

// succeed answers a request with success; done is the result of an acquire or release.
func (m *Model) succeed(c call, done bool) {
	c.stream.send(Reply{Kind: Result, To: c.Kind, ReqID: c.ReqID, Status: Success, Done: done})
}
