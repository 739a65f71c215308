package coordination

// logClock is time that leaders have proven to have served, in milliseconds: each entry states for how long its
// leader had served when it wrote the entry (Entry.ServedMillis). It stands still while nobody serves, and for
// the time that a leader serves behind its last entry. So between two entries it never shows more than has
// passed, and a time that is counted by it goes on under the next leader.
type logClock struct {
	millis uint64 // what it shows
	base   uint64 // what it showed when term began to count
	term   Term   // of the last entry with ServedMillis
}

// proves moves the clock on by the time that an entry of a term proves.
func (k *logClock) proves(term Term, servedMillis uint64) {
	if servedMillis == 0 {
		return
	}
	if term != k.term {
		k.term, k.base = term, k.millis
	}
	k.millis = max(k.millis, k.base+servedMillis)
}

// absence is a session's time without a client, as far as it is logged: when it began, by the log clock, and how
// long it may last until the session ends. A total of 0 is no absence: a client has the session, or the log
// does not know.
//
// A stream gets an absent session, by an attach or otherwise, once the end of the absence is logged, and hears
// nothing before: otherwise the next leader would end a session whose client has just had a sign of life.
type absence struct {
	since, totalMillis uint64
}

// leftMillis returns the rest of the total.
func (a absence) leftMillis(clock uint64) uint64 {
	return a.totalMillis - min(a.totalMillis, clock-min(clock, a.since))
}
