package turn

import "sync"

// Turn is the right to work. It is made by New, and must not be copied.
type Turn struct {
	mutex   sync.Mutex
	waiting func() bool
	bell    Bell
}

// New makes a turn that is free. waiting reports whether work is left that the owner could do now: while it
// reports true behind every turn, the owner is woken again and again. It is called without the turn, by any
// goroutine. The owner listens to bell.
func New(bell Bell, waiting func() bool) *Turn { return &Turn{bell: bell, waiting: waiting} }

// Lock takes the turn, and waits for as long as somebody else has it. It is for the owner, and for what
// cannot be left as work.
func (t *Turn) Lock() { t.mutex.Lock() }

// TryLock takes the turn if nobody has it, and reports whether it did. Who has left work first may go if it
// did not.
func (t *Turn) TryLock() bool { return t.mutex.TryLock() }

// Unlock gives the turn back, and rings for the owner if work is left.
func (t *Turn) Unlock() {
	t.mutex.Unlock()
	if t.waiting() {
		t.bell.Ring()
	}
}
