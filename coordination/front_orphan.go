package coordination

// A Front without a leader, or one that must be silent: the project's own design, because the reference ends every
// stream instead (§4.2).
//
// One leader change, as a stream sees it:
//
//	Orphan    its leader is gone. Requests are kept, replies too, and the time within which a leader must come begins.
//	Rejoin    there is a leader. It learns the stream's identity, its claim, and all that is open; from here on
//	          requests go to it. The stream still says nothing.
//	Deliver   the leader answers: Resumed, and the stream speaks again, beginning with what it kept; or End, because
//	          the session is over or another stream has it.
//
// A leader may go again between any two of them; then it all begins anew, with nothing forgotten.

// Mute forbids the Front to say anything to the client, or allows it again. The group calls it with true when
// the leader's permit for this server to speak has run out, and with false when it has a permit. Replies are
// kept meanwhile.
func (f *Front) Mute(mute bool) {
	f.mute = mute
	f.withhold()
}

// withhold notes that a ping which nobody has taken waits for a permit now, and not behind a client
// that does not read.
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

// quiet reports whether the Front must keep to itself what it has to say. It may have no permit to speak. Or
// it has a permit, from a leader that has not yet answered for this stream's session: that leader, or one
// before it, may have ended the session while this server could not hear of it.
func (f *Front) quiet() bool { return f.mute || f.claims }

// heldMillis limits how long a quiet Front keeps a Failure before it ends without having sent it, and heldPollMillis is
// the interval at which it checks whether it may send it.
const (
	heldMillis     = 1500
	heldPollMillis = 20
)

// hold keeps a Failure until it may be sent. The leader has ended the stream, or knows that it has ended.
func (f *Front) hold(refusal *Refusal) {
	f.state, f.held = frontHoldsFailure, refusal
	f.wake, f.expires = 0, Never
	f.stopPinging()
}

// It sends the held Failure, or sets the time for another attempt.
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

// deliverHeld takes the answer of a leader to which Rejoin has shown a stream that holds a Failure. With any answer the
// stream need not be quiet any more: it sends the Failure that it holds or, if the session turns out to be gone, the
// end of that.
func (f *Front) deliverHeld(m *Message) {
	if !f.resumed {
		return
	}
	f.wake = 0
	if m.Kind == MessageEnd {
		f.resumed, f.held = false, m.Refusal
	}
}

// giveUp ends a stream that has waited for too long: with "Link failure", or with the Failure that it holds,
// or silently if it is quiet.
func (f *Front) giveUp() Forward {
	switch {
	case f.state == frontAttaching && f.start.Session == 0:
		// the client has no session that it could take for alive
		f.mute = false
		return f.fail(LinkFailure)
	case !f.quiet() && f.state == frontHoldsFailure:
		return f.fail(f.held)
	case !f.quiet():
		return f.fail(LinkFailure)
	}
	detach := Forward{Detach: f.known()}
	f.drop() // to say them now would be to say that the session lives
	f.end(EndingSilent)
	return detach
}

// Orphan notifies the Front that its leader is gone; a repetition changes nothing. An attached stream waits for the
// next leader for the grace period of its node, and then ends with "Link failure"; one that is still attaching waits
// for as long as a node's default grace period (§2.3 11).
//
// A stream that has a session, or asked for one by its number, claims it from now on: it is quiet, with a
// permit or without, until a leader has answered for it.
func (f *Front) Orphan(now Instant) {
	if f.orphan {
		return
	}
	f.orphan, f.claims, f.resumed = true, f.claimed() != 0, false
	f.awaitLeader(now)
}

// awaitLeader begins the time within which the next leader must come, unless the Front has a leader.
func (f *Front) awaitLeader(now Instant) {
	switch {
	case !f.orphan:
	case f.state == frontAttached || f.state == frontStopping:
		f.expires = now.After(f.grace)
	case f.state == frontAttaching:
		f.expires = now.After(defaultGraceMillis)
	}
}

// Rejoin returns the stream's announcement to the next leader, and from then on the Front forwards to it. The caller
// holds the stream's lock across both, so that no request overtakes the roster which already has it.
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
		roster.Open = f.open.appendTo(nil)
		return Forward{Roster: &roster}
	}
	return Forward{}
}
