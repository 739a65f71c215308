package turn

// Bell wakes the one goroutine that listens to it, by receiving from it. Several rings before it wakes are
// one, and a ring while it does not listen is heard when it does: mail that was left before a ring is found. A nil Bell
// can neither be rung nor heard: ringing it does nothing.
type Bell chan struct{}

// NewBell makes a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
