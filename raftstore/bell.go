package raftstore

// bell wakes the one goroutine that listens to it. Several rings before it wakes are one, and a ring while it does not
// listen is heard when it does: whoever leaves something to be found and then rings can be sure that it is looked for.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

// ring never blocks.
func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
