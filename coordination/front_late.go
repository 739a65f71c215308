package coordination

// Pong timeout accounting (§2.7): a client is failed for its own silence only. On a healthy server the time is the
// reference's; time in which the server was held up, or did not read, is not charged to the client.

// tardy is the unusual delay of something that was due at an instant, or 0.
func (f *Front) tardy(asked, now Instant) Instant {
	if now < asked.After(min(tardyMillis, f.patience)) {
		return 0
	}
	return now - asked
}

// excuse puts off the end of the patience by what does not count at this tick. A tick that comes late shows
// that the server did not run, so the pong may lie there unread: the client gets as much time again. As long as the
// ping was not handed out, or lay here because the Front was silent, no time counts.
func (f *Front) excuse(now Instant) {
	switch late := f.tardy(f.wake, now); {
	case f.untaken && !f.behind:
		f.overdue = max(f.overdue, now.After(f.patience))
		f.behind = f.sending // from now on, if the Front was silent before
	case late > 0:
		f.overdue = max(f.overdue, now) + min(late, Instant(0).After(f.patience))
	}
}

// PingWaits reports whether the next Take hands out a ping.
func (f *Front) PingWaits() bool { return f.untaken && !f.silent() }

// PingTaken reports that the ping is handed out now, just before Take. If it has waited for a server that was held up,
// and not for the client, the client's time begins now.
func (f *Front) PingTaken(now Instant) {
	if !f.behind && f.opaque != 0 && f.tardy(f.pinged, now) > 0 {
		f.putOff(now.After(f.patience) - f.overdue)
	}
}

// NotRead reports that the server does not read the stream from now on, because too much is under way: a pong may lie
// there unread, and the ping clock stands still. A stream that is attaching is not read either, but has no ping clock.
func (f *Front) NotRead(now Instant) {
	if f.Attached() && !f.Unread() {
		f.unread = now
	}
}

// Unread reports whether the stream is not read.
func (f *Front) Unread() bool { return f.unread != Never }

// Read reports that the stream is read again.
func (f *Front) Read(now Instant) {
	if !f.Unread() {
		return
	}
	if f.opaque != 0 {
		f.putOff(now - max(f.unread, f.pinged))
	}
	f.unread = Never
}

// putOff puts off the end of the patience, and the tick that is planned for it.
func (f *Front) putOff(by Instant) {
	if f.wake == f.overdue || f.wake == Never {
		f.wake = f.overdue + max(by, 0)
	}
	f.overdue += max(by, 0)
}

// stopPinging forgets the ping that is not answered: nothing of the stream is late from now on.
func (f *Front) stopPinging() { f.opaque, f.untaken, f.unread = 0, false, Never }

// unreadUntil is the end of the time for a stream that is not read.
func (f *Front) unreadUntil() Instant {
	if f.unread == Never {
		return Never
	}
	return f.unread.After(unreadMillis)
}
