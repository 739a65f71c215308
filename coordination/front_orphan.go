package coordination

// This file is what a Front does while its leader is gone, or while it must be silent: the project's own design, because
// the reference ends every stream instead (§4.2).

// Mute forbids, or allows again, to say anything to the client. A client takes every message for a sign that its session
// lives, so a Front may speak only while it holds the leader's leave. Replies are kept meanwhile.
func (f *Front) Mute(mute bool) {
	f.mute = mute
	f.withhold()
}

// withhold notes that it is not the client that holds up the ping that nobody has taken.
func (f *Front) withhold() {
	if f.silent() {
		f.behind = false
	}
}

// claimed is the session for which the stream speaks, or wants to speak; 0 if it knows of none.
func (f *Front) claimed() SessionID {
	if f.state == frontAttaching {
		return f.start.Session
	}
	return f.roster.Session
}

// quiet tells whether the Front must be silent: it has no leave, or the leader that gives it has not answered for the
// session. That leader, or one before it, may have ended the session long ago.
func (f *Front) quiet() bool { return f.mute || f.claims }

func (f *Front) silent() bool { return f.quiet() && f.state != frontEnded }

// heldMillis is how long a Failure is kept that must not be said, and heldPollMillis how often to look again.
const (
	heldMillis     = 1500
	heldPollMillis = 20
)

// hold keeps a Failure until it may be said. The leader does not count on the stream any more.
func (f *Front) hold(refusal *Refusal) {
	f.state, f.held = frontHoldsFailure, refusal
	f.wake, f.expires = 0, Never
}

// tellHeld says what is held, or looks again a little later.
func (f *Front) tellHeld(now Instant) Forward {
	if !f.quiet() {
		return f.fail(f.held)
	}
	f.wake = now.After(heldPollMillis)
	if f.expires == Never {
		f.expires = now.After(heldMillis)
	}
	return Forward{}
}

// deliverHeld takes what a leader says to a stream that holds a Failure and has told it, as the next one, who it is: the
// Failure may be said now, and if the session is gone, that.
func (f *Front) deliverHeld(m *Message) {
	if !f.resumed {
		return
	}
	f.wake = 0
	if m.Kind == MessageEnd {
		f.resumed, f.held = false, m.Refusal
	}
}

// giveUp ends a stream that has waited for too long: with "Link failure", or without a word if nothing may be said.
func (f *Front) giveUp() Forward {
	switch {
	case f.state == frontAttaching && f.start.Session == 0: // there is no session that could be taken for alive
		f.mute = false
		return f.fail(LinkFailure)
	case !f.quiet() && f.state == frontHoldsFailure:
		return f.fail(f.held)
	case !f.quiet():
		return f.fail(LinkFailure)
	}
	detach := Forward{Detach: f.known()}
	f.replies = nil // what was kept from the client, it shall not hear now
	f.end(EndingSilent)
	return detach
}

// Orphan tells that the leader is gone. An attached stream waits for the next one for the grace period of its node, and
// ends with "Link failure" if none comes; one that is still attaching waits as long as a node's default (§2.3 11).
// Requests are kept meanwhile. From here on nothing is said about a session that is there already, whoever gives leave,
// until a leader has answered for it.
func (f *Front) Orphan(now Instant) {
	if f.orphan {
		return
	}
	f.orphan, f.claims, f.resumed = true, f.claimed() != 0, false
	f.awaitLeader(now)
}

// awaitLeader begins the time within which the next leader must come.
func (f *Front) awaitLeader(now Instant) {
	switch {
	case !f.orphan:
	case f.state == frontAttached || f.state == frontStopping:
		f.expires = now.After(f.grace)
	case f.state == frontAttaching:
		f.expires = now.After(defaultGraceMillis)
	}
}

// Rejoin returns what the next leader must be told, and forwards to it from then on.
func (f *Front) Rejoin() Forward {
	f.orphan, f.expires = false, Never
	switch f.state {
	case frontAttaching:
		return Forward{Attach: f.start}
	case frontHoldsFailure:
		if !f.claims {
			break
		}
		f.resumed = true
		roster := f.roster
		return Forward{Roster: &roster}
	case frontAttached, frontStopping:
		roster := f.roster
		for i := range f.open {
			roster.Open = append(roster.Open, f.open[i].OpenRequest)
		}
		return Forward{Roster: &roster}
	}
	return Forward{}
}
