package model

import "time"

// age is the log clock: milliseconds for which leaders have served, as far as entries of the log state it. The
// next leader does not know of the time behind the last entry.
type age struct {
	base     uint64        // what the clock showed when the present leader began
	began    time.Duration // when that was
	comeBack uint64        // milliseconds that inherited sessions have before the log hears of their absence
	lasted   uint64        // the last reign of which the log knows
	calm     uint64        // for which leaders have served that handed over to each other, up to the present one
}

// clock returns the log clock behind an entry that is made now.
func (a *age) clock(now time.Duration) uint64 { return a.base + millis(now-a.began) }

func (a *age) restart(now time.Duration, clock uint64) {
	if clock != a.base {
		a.lasted = clock - a.base
	}
	a.base, a.began = clock, now
	a.comeBack = min(max(a.lasted/4, 250), 1000)
}

func millis(d time.Duration) uint64 { return uint64(d / time.Millisecond) }

// absence is since when, by the log clock, a session is without a client, and how long it may be.
type absence struct{ since, total uint64 }

func (a absence) left(clock uint64) uint64 {
	if passed := clock - a.since; passed < a.total {
		return a.total - passed
	}
	return 0
}

// noteAbsence logs the absence of a session that is detached, if nothing about it is in flight.
func (sess *session) noteAbsence(m *Model) {
	due := sess.absentDue
	switch {
	case due == nil || *due > m.now || sess.expires == nil || *sess.expires <= m.now:
		return
	case sess.inFlight > 0:
		sess.absentDue = m.after(250)
		return
	}
	sess.absentDue = nil
	noted, total := absence{m.age.clock(sess.detached), millis(*sess.expires - sess.detached)}, sess.expires
	m.later(sess, func() {
		if m.findSession(sess.id) == sess && sess.expires == total {
			sess.absence = &noted
		}
	})
}

// inherited returns the time that a new leader gives a session: the rest of an absence that is logged.
func (sess *session) inherited(m *Model) uint64 {
	if sess.absence != nil {
		return sess.absence.left(m.age.base)
	}
	grace := m.node.config.grace()
	return sess.timeoutMillis + grace - min(grace, m.age.calm)
}
