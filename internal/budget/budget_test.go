package budget

import (
	"context"
	"testing"
)

// TestBudget spends to the limit and a byte more. Who waits is served in line; what is larger than all there
// is passes alone; who goes away does not hold up those behind.
func TestBudget(t *testing.T) {
	var b Budget
	b.Limit(100)
	if b.WishFor(60) != nil || b.WishFor(40) != nil {
		t.Fatal("credit is refused below the limit")
	}
	one, large, last := b.WishFor(1), b.WishFor(500), b.WishFor(10)
	granted := func(w *Wish) bool {
		select {
		case <-w.granted:
			return true
		default:
			return false
		}
	}
	if one == nil || granted(one) || granted(large) || granted(last) {
		t.Fatal("credit is given beyond the limit")
	}
	b.Change(-40)
	if !granted(one) || granted(large) || granted(last) {
		t.Fatal("the line is not kept")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if b.Await(gone, large) || !granted(last) {
		t.Error("who goes away is in the way")
	}
	b.Change(-71)
	if b.WishFor(500) != nil {
		t.Error("what is larger than the limit does not pass alone")
	}
	if w := b.WishFor(1); w == nil {
		t.Error("something passes beside it")
	}
	b.Limit(1000)
	if spent, waiting := b.Held(); spent != 501 || waiting != 0 {
		t.Errorf("%d are spent, %d wait", spent, waiting)
	}
}
