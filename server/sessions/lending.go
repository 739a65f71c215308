package sessions

import (
	"context"
)

const (
	// lentUnitBytes is what memory is lent by.
	lentUnitBytes = 1 << 20
	// MostLentBytes is how much large answers may have of memory of their own, besides the data that they
	// share with the state. It is enough for the largest (TestLargestAnswerIsLentFor).
	MostLentBytes = 64 << 20
)

// lending bounds what large answers have of memory until their clients have read them. Who wants more waits
// in line; those who have it give it back, as a client that does not read loses its stream.
type lending struct {
	first chan struct{} // holds one for the first in line
	lent  chan struct{} // holds one for each unit
}

func newLending() lending {
	return lending{make(chan struct{}, 1), make(chan struct{}, MostLentBytes/lentUnitBytes)}
}

// borrow takes memory, and returns how many units that is; none if ctx is done before there is enough.
func (l *lending) borrow(ctx context.Context, bytes int) (units int) {
	wanted := min((bytes+lentUnitBytes-1)/lentUnitBytes, cap(l.lent))
	select {
	case l.first <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	defer func() { <-l.first }()
	for units < wanted {
		select {
		case l.lent <- struct{}{}:
			units++
		case <-ctx.Done():
			l.giveBack(units)
			return 0
		}
	}
	return units
}

func (l *lending) giveBack(units int) {
	for range units {
		<-l.lent
	}
}
