package budget

import (
	"context"
	"testing"
)

// TestBudget spends to the limit and a byte more. Who waits is served in line; what is larger than all there
// is passes alone; who goes away does not hold up those behind.
func TestBudget(t *testing.T) {
	b := New("test", 100)
	if b.join(60) != nil || b.join(40) != nil {
		t.Fatal("credit is refused below the limit")
	}
	one, large, last := b.join(1), b.join(500), b.join(10)
	granted := func(w *waiter) bool {
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
	b.Release(40)
	if !granted(one) || granted(large) || granted(last) {
		t.Fatal("the line is not kept")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if b.await(gone, large) || !granted(last) {
		t.Error("who goes away is in the way")
	}
	b.Release(71)
	if b.join(500) != nil {
		t.Error("what is larger than the limit does not pass alone")
	}
	if w := b.join(1); w == nil {
		t.Error("something passes beside it")
	}
	b.SetLimit(1000)
	if b.Used() != 501 || b.Waiting() != 0 || b.Free() != 499 || b.Limit() != 1000 || b.Name() != "test" {
		t.Errorf("%d of %d are used by %q, %d wait", b.Used(), b.Limit(), b.Name(), b.Waiting())
	}
}

// TestAdjust goes beyond the limit without asking; each release is noted, and nothing else is.
func TestAdjust(t *testing.T) {
	b, noted := New("test", 10), 0
	b.OnRelease(func() { noted++ })
	b.Adjust(15)
	if b.Used() != 15 || b.Free() != 0 || b.TryAcquire(1) || noted != 0 {
		t.Errorf("%d are used, %d are free, %d releases", b.Used(), b.Free(), noted)
	}
	b.Release(6)
	if !b.TryAcquire(1) || b.TryAcquire(1) || noted != 1 {
		t.Errorf("%d are used after %d releases", b.Used(), noted)
	}
	b.OnRelease(nil)
	if b.Release(10); b.Used() != 0 || noted != 1 {
		t.Errorf("%d are used after %d releases", b.Used(), noted)
	}
}
