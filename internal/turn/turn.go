package turn

import "sync"

// Turn is the right to work. It is made by New, and must not be copied.
type Turn struct {
	mutex   sync.Mutex
	number  uint64 // of the turn that is taken, or that comes next
	waiting func() bool
	bell    Bell
}

// New makes a turn that is free. waiting reports whether work is left that the owner could do now: while it
// reports true behind every turn, the owner is woken again and again. It is called without the turn, by any
// goroutine. The owner listens to bell.
func New(bell Bell, waiting func() bool) *Turn { return &Turn{bell: bell, waiting: waiting} }

// Token shows that its bearer holds a turn. A function that needs the turn takes one as an argument.
type Token struct {
	turn   *Turn
	number uint64
}

// Check panics if the turn was given back since. Only the goroutine that took it may call this.
func (t Token) Check() {
	if t.number != t.turn.number {
		panic("the turn of this token is over")
	}
}

// Lock takes the turn, and waits for as long as another goroutine has it. It is for the owner, and for what
// cannot be left as work.
func (t *Turn) Lock() Token {
	t.mutex.Lock()
	return Token{t, t.number}
}

// TryLock takes the turn if it is free, and reports whether it was. A goroutine that has left work before may
// go if it was not.
func (t *Turn) TryLock() (held Token, free bool) {
	if !t.mutex.TryLock() {
		return Token{}, false
	}
	return Token{t, t.number}, true
}

// Unlock gives the turn back, and rings for the owner if work is left.
func (t *Turn) Unlock() {
	t.number++
	t.mutex.Unlock()
	if t.waiting() {
		t.bell.Ring()
	}
}
