package turn

import "testing"

// TestBell: a ring is heard later too, several are one, and none blocks.
func TestBell(t *testing.T) {
	b := NewBell()
	heard := func() bool {
		select {
		case <-b:
			return true
		default:
			return false
		}
	}
	if heard() {
		t.Error("heard without a ring")
	}
	for range 3 {
		b.Ring()
	}
	if !heard() || heard() {
		t.Error("three rings before anybody listens are not one")
	}
	left, found := make(chan int, 1000), 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for found < cap(left) {
			<-b
			for len(left) > 0 {
				<-left
				found++
			}
		}
	}()
	for i := range cap(left) {
		left <- i
		b.Ring()
	}
	<-done // all that was left is found
}
