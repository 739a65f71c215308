package coordination

// This file is for a server on which somebody turns the clock by hand, as in other people's tests: clients go
// by the real one, so they have to hear something meanwhile.

// RemindMillis is the time, by the real clock, until Remind is to be called, or 0 without a client to remind.
func (f *Front) RemindMillis() uint64 {
	switch f.state {
	case frontAttached, frontStopping:
		return f.interval
	case frontHoldsFailure:
		return max(f.policy.HoldStartFailureMillis, 1)
	}
	return 0
}

// Remind pings a client that has answered all others, and sends a held Failure, although the turned clock may not have
// come so far. It never gives a client up.
func (f *Front) Remind(now Instant) Forward {
	switch f.state {
	case frontAttached, frontStopping:
		if f.opaque == 0 && f.unread == Never && !f.quiet() {
			f.ping(now)
		}
	case frontHoldsFailure:
		return f.tellHeld(now)
	}
	return Forward{}
}

// Unanswered is the number of the ping that the client has not answered, or 0.
func (f *Front) Unanswered() uint64 { return f.opaque }

// Awaits reports whether the leader has to say something before the stream goes on.
func (f *Front) Awaits() bool {
	return f.state != frontEnded && (f.unanswered > 0 || f.state == frontAttaching)
}
