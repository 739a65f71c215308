package coordination

// ages is the time of one leader: how far the log knows of it.
type ages struct {
	began    Instant // to serve
	clock    uint64  // the log clock as it was then
	served   Instant // by the last entry that proves time
	skipped  Instant // the part of the time since it began that no entry proves
	proven   Instant // of the last entry, which has moved the log clock on
	inFlight bool    // an entry that moves it on is on its way
	// comeBackMillis is the time that streams of inherited sessions have to come back before an absence is logged
	comeBackMillis uint64
	unreadable     bool // nothing of this is logged: not every server of the cluster can read it
}

// The pauses, in milliseconds, before a leader logs that time passes.
const (
	// minAgeMillis and maxAgeMillis bound the time between two entries while something runs out.
	minAgeMillis, maxAgeMillis = 250, 5000
	// absencePauseMillis is the time between the detach of a session and the entry that records it, unless the
	// session ends before. For an inherited session, whose stream may come back, it is a quarter of the last
	// reign, at most maxComeBackMillis.
	absencePauseMillis, maxComeBackMillis = 250, 1000
	// ageShare is the part of what is left that a leader may be lost with: one sixteenth.
	ageShare = 16
)

const nanosPerMilli = 1_000_000

func inMillis(d Instant) uint64 { return uint64(max(0, d)) / nanosPerMilli }

// servedMillis returns Entry.ServedMillis of an entry that is written now; 0, which proves nothing, before every
// server of the cluster can read it. The time before such an entry is never proven: a wait that begins with it would
// have waited for so long.
func (a *ages) servedMillis(now Instant, writable bool) uint64 {
	if a.unreadable || !writable {
		a.skipped = now - a.began - a.served
		return 0
	}
	a.served = now - a.began - a.skipped
	return inMillis(a.served)
}

// clockAt returns the log clock behind an entry that is written at a moment of this leader's time, at most.
func (a *ages) clockAt(t Instant) uint64 { return a.clock + inMillis(t-a.began-a.skipped) }

// due returns the moment at which an entry has to move the log clock on, if the first thing to run out does so at
// a given one: a lost leader takes with it at most a sixteenth of the time that was left.
func (a *ages) due(first Instant) Instant {
	if a.unreadable || a.inFlight || first == Never {
		return Never
	}
	return a.proven.After(min(max(inMillis(first-a.proven)/ageShare, minAgeMillis), maxAgeMillis))
}

// executed notes that an entry has been executed, which has moved the log clock on.
func (a *ages) executed(now Instant) { a.proven, a.inFlight = now, false }
