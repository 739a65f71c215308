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

// calm is the time in which no client can have heard of its session but from leaders that the log knows of. A leader
// behind one that is lost does not know for how long that one, or a server that has its permit, goes on to speak, and
// grants every session a grace period for it. The heir of a leader that hands over knows: since Quiet nobody speaks.
// What its predecessor has served counts toward the grace period that it had to grant, so a line of heirs grants it
// once.
type calm struct {
	quiet Term   // of the last entry, if Quiet is its last command
	heir  Term   // of the last leader that began behind Quiet
	since uint64 // with one of them: the log clock at the beginning of the first leader of the line
}

// begins notes the first entry of a term, or one that changes members: neither has commands. A leader that has
// executed the first entry of its term may have spoken, so another one behind it knows nothing of calm.
func (c *calm) begins(term Term) {
	if c.quiet != 0 && term > c.quiet {
		c.heir = term
	}
	c.quiet = 0
}

// ends executes Quiet.
func (c *calm) ends(term Term, clock *logClock) {
	if c.heir != term {
		if c.since = clock.millis; clock.term == term { // otherwise the term has proven nothing
			c.since = clock.base
		}
	}
	c.quiet, c.heir = term, 0
}

// millis returns the part of the grace period that is over when the leader of a term begins, whose first entry is the
// last one.
func (c *calm) millis(term Term, clock *logClock) uint64 {
	if c.heir != term {
		return 0
	}
	return clock.millis - c.since
}
