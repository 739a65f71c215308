// Package lograte rate-limits repeated log lines with exponential back-off and counts the suppressed ones. It
// guards every line that a client can cause as often as it likes.
package lograte

import (
	"cmp"
	"sync"
	"time"
)

// The pause between two lines about the same event starts at MinPause and doubles up to MaxPause.
const (
	MinPause = time.Second
	MaxPause = 5 * time.Minute
)

// maxKeys bounds how many keys a ByKey distinguishes.
const maxKeys = 64

// Suppressed is the log attribute for the number of events that were suppressed before the line.
const Suppressed = "not told before"

// Limiter limits one repeated line. The zero value allows the first event. It is not safe for concurrent use.
type Limiter struct {
	longest    time.Duration // of a pause; 0: MaxPause
	until      time.Time
	pause      time.Duration
	suppressed int
}

// Allow reports whether to log an event, and how many events before it were suppressed.
func (l *Limiter) Allow(now time.Time) (ok bool, suppressed int) {
	if now.Before(l.until) {
		l.suppressed++
		return false, 0
	}
	longest := cmp.Or(l.longest, MaxPause)
	if now.Sub(l.until) > longest {
		l.pause = 0
	}
	l.pause = min(max(2*l.pause, MinPause), longest)
	l.until = now.Add(l.pause)
	suppressed, l.suppressed = l.suppressed, 0
	return true, suppressed
}

// expired reports whether the limiter behaves like a new one, or has a count that nobody has asked for in MaxPause.
func (l *Limiter) expired(now time.Time) bool {
	past := now.Sub(l.until)
	return past > MaxPause || l.suppressed == 0 && past > cmp.Or(l.longest, MaxPause)
}

// State limits lines about the changes of a state. The zero value has logged the state "". It is not safe for
// concurrent use.
type State struct {
	logged  string
	limiter Limiter
}

// Logged returns the state that was logged last.
func (s *State) Logged() string { return s.logged }

// Allow reports whether to log the present state, and how many changes before it were suppressed. A state that
// is suppressed now is allowed by a later call, if it lasts.
func (s *State) Allow(state string, now time.Time) (ok bool, suppressed int) {
	if state == s.logged {
		return false, 0
	}
	if ok, suppressed = s.limiter.Allow(now); ok {
		s.logged = state
	}
	return ok, suppressed
}

// SetLogged marks a state as logged that was logged without a call of Allow.
func (s *State) SetLogged(state string) { s.logged = state }

// ByKey limits lines by a key, such as an address. A client that varies its key gains little: beyond 64 keys, all
// others share one limiter until some have expired. The zero value is ready for use, by several goroutines.
type ByKey struct {
	Longest time.Duration // of the pauses; 0: MaxPause

	mu       sync.Mutex
	limiters map[string]*Limiter
	rest     Limiter
}

// Allow reports whether to log an event of a key, and how many events before it were suppressed.
func (k *ByKey) Allow(key string, now time.Time) (ok bool, suppressed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limiterOf(key, now).Allow(now)
}

func (k *ByKey) limiterOf(key string, now time.Time) *Limiter {
	if limiter := k.limiters[key]; limiter != nil {
		return limiter
	}
	if len(k.limiters) >= maxKeys {
		for other, limiter := range k.limiters {
			if limiter.expired(now) {
				delete(k.limiters, other)
			}
		}
	}
	if len(k.limiters) >= maxKeys {
		return &k.rest
	}
	if k.limiters == nil {
		k.limiters = map[string]*Limiter{}
	}
	limiter := &Limiter{longest: k.Longest}
	k.limiters[key] = limiter
	return limiter
}
