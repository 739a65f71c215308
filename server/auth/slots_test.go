package auth

import (
	"errors"
	"fmt"
	"testing"
)

// TestSourcesTakeTurns: a source that fills the line loses its own last place to the next source, whose turn
// comes behind one of its own.
func TestSourcesTakeTurns(t *testing.T) {
	h := NewHasher()
	h.takeAll(t)
	order := make(chan string, 2*maxHashesWaiting)
	refused := make(chan string, 2*maxHashesWaiting)
	come := func(source string) {
		go func() {
			done, err := h.slots.acquire(t.Context(), source, false)
			switch {
			case err == nil:
				order <- source
				done()
			case errors.Is(err, ErrOverloaded):
				refused <- source
			default:
				t.Error(err)
			}
		}()
	}
	for i := range maxHashesWaiting {
		come("flood")
		h.await(t, false, i+1)
	}
	come("flood")
	if got := <-refused; got != "flood" {
		t.Errorf("%s is refused", got)
	}
	come("guest")
	if got := <-refused; got != "flood" {
		t.Errorf("%s is refused in the place of who floods", got)
	}
	h.slots.release(true) // the other one is still taken, so strangers go one by one
	if first, second := <-order, <-order; first != "flood" || second != "guest" {
		t.Errorf("the first slots are of %s and %s", first, second)
	}
	for range maxHashesWaiting - 2 {
		if got := <-order; got != "flood" {
			t.Errorf("%s has a slot", got)
		}
	}
	h.await(t, false, 0)
	if len(refused) != 0 {
		t.Errorf("%d more are refused", len(refused))
	}
}

// TestStrangersLeaveASlot: however many strangers there are, one slot is free for who is known, and one of
// the slots of those who are known goes to a stranger.
func TestStrangersLeaveASlot(t *testing.T) {
	h := NewHasher()
	take := func(known bool) {
		t.Helper()
		if _, err := h.slots.acquire(t.Context(), fmt.Sprint(known), known); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(known bool) chan struct{} {
		t.Helper()
		had := make(chan struct{})
		go func() {
			take(known)
			close(had)
		}()
		return had
	}
	take(false)
	second := waiting(false)
	h.await(t, false, 1)
	take(true)
	friend := waiting(true)
	h.await(t, true, 1)
	h.slots.release(false)
	<-second // not the friend
	h.slots.release(true)
	<-friend
	if h.slots.inUse != 2 || h.slots.strangers != 1 {
		t.Errorf("%d slots are taken, %d by strangers", h.slots.inUse, h.slots.strangers)
	}
}
