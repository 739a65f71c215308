package coordination

// This file is what a Front does while its leader is gone, or while it must be silent: the project's own design, because
// the reference ends every stream instead (§4.2).

// Mute forbids, or allows again, to say anything to the client. A client takes every message for a sign that its session
// lives, so a Front may speak only while it holds the leader's leave. Replies are kept meanwhile.
func (f *Front) Mute(mute bool) { f.mute = mute }

func (f *Front) silent() bool { return f.mute && f.state != frontEnded }

// Orphan tells that the leader is gone. An attached stream waits for the next one for the grace period of its node, and
// ends with "Link failure" if none comes; one that is still attaching waits for as long as its client does. Requests are
// kept meanwhile.
func (f *Front) Orphan(now Instant) {
	if f.orphan {
		return
	}
	f.orphan = true
	if f.state == frontAttached || f.state == frontStopping {
		f.expires = now.After(f.grace)
	}
}

// Rejoin returns what the next leader must be told, and forwards to it from then on.
func (f *Front) Rejoin() Forward {
	f.orphan, f.expires = false, Never
	switch f.state {
	case frontAttaching:
		return Forward{Attach: f.start}
	case frontAttached, frontStopping:
		roster := f.roster
		roster.Stopping = f.state == frontStopping
		for i := range f.open {
			roster.Open = append(roster.Open, f.open[i].OpenRequest)
		}
		return Forward{Roster: &roster}
	}
	return Forward{}
}
