package conformance

import (
	"errors"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// pace is the speed at which a script is played. The times of a script that waits are all multiplied by scale, so that
// the rest of its steps take next to no time beside them. In a script that never waits nothing may run out: there short
// times get more.
type pace struct {
	scale   uint64        // 0: as the script says, since time passes only when it waits
	more    uint64        // milliseconds
	margin  time.Duration // by how much everything but the waits may have taken time; 0: any
	began   time.Time
	allowed time.Duration // how long the waits were so far
}

const (
	// stretchedMost is the longest time that is stretched, in milliseconds; longer ones do not run out during
	// a run.
	stretchedMost = 10_000
	// unhurried is the length of a short time in a script that does not wait, in milliseconds.
	unhurried = 600_000
	// slowestScale bounds how slowly a script is played: its outcome counts then, however slow the machine
	// is. Sessions have at most 30 min.
	slowestScale = 81
)

// errTooSlow reports that the steps of a script took so long that events of a wait may have happened before it.
var errTooSlow = errors.New("too slow for the script's times")

func newPace(target Target, script *Script) pace {
	switch {
	case target.Offers(NeedClock):
		return pace{}
	case script.waits() == 0:
		return pace{more: unhurried}
	case script.Recorded: // where it is too slow is seen only by what comes of it
		return pace{scale: 1}
	}
	return pace{scale: 1, margin: script.shortestWait() / 2, began: time.Now()}
}

func (p pace) slower() pace {
	p.scale, p.began, p.allowed = 3*p.scale, time.Now(), 0
	return p
}

// slowestRecorded bounds how slowly a recording is played before its differences count.
const slowestRecorded = 9

// mayBeSlower reports whether a recording that differs is to be played again: what took the clients' time is
// not in it, but for the long silences.
func (p pace) mayBeSlower(script *Script) bool {
	return script.Recorded && p.scale > 0 && p.scale < slowestRecorded
}

// pass returns the time to wait.
func (p *pace) pass(scripted time.Duration) time.Duration {
	d := scripted * time.Duration(max(1, p.scale))
	p.allowed += d
	return d
}

// late reports whether so much time was lost that the script has to be played more slowly.
func (p *pace) late() bool {
	return p.margin > 0 && p.scale < slowestScale &&
		time.Since(p.began)-p.allowed > p.margin*time.Duration(p.scale)
}

// stretch is the time to send for one in the script; unstretch is its reverse, for what the server shows.
// Milliseconds.
func (p *pace) stretch(millis uint64) uint64 {
	if millis == 0 || millis > stretchedMost {
		return millis
	}
	return millis*max(1, p.scale) + p.more
}

func (p *pace) unstretch(millis uint64) uint64 {
	if least, most := p.stretch(1), p.stretch(stretchedMost); millis < least || millis > most {
		return millis
	}
	return (millis - p.more) / max(1, p.scale)
}

// unstretchAll does that to all times in a reply.
func (p *pace) unstretchAll(m *sessionReply) {
	if started := m.GetSessionStarted(); started != nil {
		started.TimeoutMillis = p.unstretch(started.GetTimeoutMillis())
	}
	d := m.GetDescribeSemaphoreResult().GetSemaphoreDescription()
	for _, links := range [][]*Ydb_Coordination.SemaphoreSession{d.GetOwners(), d.GetWaiters()} {
		for _, link := range links {
			link.TimeoutMillis = p.unstretch(link.GetTimeoutMillis())
		}
	}
}

// shortestWait is the shortest of the script's waits.
func (s *Script) shortestWait() time.Duration {
	shortest := time.Duration(0)
	s.eachWait(func(d time.Duration) {
		if shortest == 0 || d < shortest {
			shortest = d
		}
	})
	return shortest
}

func (s *Script) eachWait(do func(time.Duration)) {
	for _, step := range s.steps {
		for _, q := range step.requests {
			if q.stream == "" && q.words[0] == "wait" && len(q.words) > 1 {
				if millis, err := parseMillis(q.words[1]); err == nil {
					do(time.Duration(millis) * time.Millisecond)
				}
			}
		}
	}
}
