package group

// bell wakes the one goroutine that listens to it. Several rings before it wakes are one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

// ring never blocks.
func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
