// Package quiet has like events told ever more rarely while they go on, and counts those that were not told.
// What a client can cause as often as it likes is logged by way of it.
package quiet

import (
	"sync"
	"time"
)

// Between two reports of the same are Least at first and Most in the end; it doubles.
const (
	Least = time.Second
	Most  = 5 * time.Minute
)

// kindsMax bounds the kinds that are told apart.
const kindsMax = 64

// NotTold is the name by which logs give the number of events that were not told.
const NotTold = "not told before"

// Pace is when to tell of events of one kind. The zero value tells the first one. It is not safe for
// concurrent use.
type Pace struct {
	until  time.Time
	pause  time.Duration
	hidden int
}

// Tells decides whether to tell of an event, and how many before it were not told.
func (p *Pace) Tells(now time.Time) (ok bool, hidden int) {
	if now.Before(p.until) {
		p.hidden++
		return false, 0
	}
	if now.Sub(p.until) > Most {
		p.pause = 0
	}
	p.pause = min(max(2*p.pause, Least), Most)
	p.until = now.Add(p.pause)
	hidden, p.hidden = p.hidden, 0
	return true, hidden
}

// over reports whether nothing is left to remember.
func (p *Pace) over(now time.Time) bool { return p.hidden == 0 && now.Sub(p.until) > Most }

// State tells of something that is one way and then another: of each change, ever more rarely while it goes
// on. The zero value knows the state "". It is not safe for concurrent use.
type State struct {
	told string
	pace Pace
}

// Told is the state that was told last.
func (s *State) Told() string { return s.told }

// Tells decides whether to tell of the present state, and how many times before that was not done. What is
// not told now is when it is asked again.
func (s *State) Tells(state string, now time.Time) (ok bool, hidden int) {
	if state == s.told {
		return false, 0
	}
	if ok, hidden = s.pace.Tells(now); ok {
		s.told = state
	}
	return ok, hidden
}

// Note has a state count as told.
func (s *State) Note(state string) { s.told = state }

// Kinds tells events of several kinds apart. Whoever varies the kind gains little: beyond 64 of them, all
// others share one pace until some are over. The zero value is ready; it may be used by several goroutines.
type Kinds struct {
	mu    sync.Mutex
	paces map[string]*Pace
	rest  Pace
}

// Tells decides whether to tell of an event of a kind, and how many before it were not told.
func (k *Kinds) Tells(kind string, now time.Time) (ok bool, hidden int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.paceOf(kind, now).Tells(now)
}

func (k *Kinds) paceOf(kind string, now time.Time) *Pace {
	if pace := k.paces[kind]; pace != nil {
		return pace
	}
	if len(k.paces) >= kindsMax {
		for other, pace := range k.paces {
			if pace.over(now) {
				delete(k.paces, other)
			}
		}
	}
	if len(k.paces) >= kindsMax {
		return &k.rest
	}
	if k.paces == nil {
		k.paces = map[string]*Pace{}
	}
	pace := &Pace{}
	k.paces[kind] = pace
	return pace
}
