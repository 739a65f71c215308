package share

import (
	"errors"
	"runtime"
	"testing"
)

// await waits until so many wait of a class.
func (l *Line) await(t *testing.T, class Class, n int) {
	t.Helper()
	for l.Waiting(Subject{Class: class}) != n {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// TestSourcesTakeTurns: a source that fills the line loses its own last place to the next source, whose turn
// comes behind one of its own.
func TestSourcesTakeTurns(t *testing.T) {
	const most = 128
	l := NewLine(2, most)
	for range 2 {
		<-l.take(t, Subject{Class: Known})
	}
	order, refused := make(chan string, 2*most), make(chan string, 2*most)
	come := func(source string) {
		go func() {
			done, err := l.Acquire(t.Context(), Subject{Unknown, source})
			switch {
			case err == nil:
				order <- source
				done()
			case errors.Is(err, ErrFull):
				refused <- source
			default:
				t.Error(err)
			}
		}()
	}
	for i := range most {
		come("flood")
		l.await(t, Unknown, i+1)
	}
	come("flood")
	if got := <-refused; got != "flood" {
		t.Errorf("%s is refused", got)
	}
	come("guest")
	if got := <-refused; got != "flood" {
		t.Errorf("%s is refused in the place of who floods", got)
	}
	l.release(Subject{Class: Known}) // the other one is still taken, so strangers go one by one
	if first, second := <-order, <-order; first != "flood" || second != "guest" {
		t.Errorf("the first slots are of %s and %s", first, second)
	}
	for range most - 2 {
		if got := <-order; got != "flood" {
			t.Errorf("%s has a slot", got)
		}
	}
	l.await(t, Unknown, 0)
	if len(refused) != 0 {
		t.Errorf("%d more are refused", len(refused))
	}
}

// TestStrangersLeaveASlot: however many strangers there are, one slot is free for who is known, and one of
// the slots of those who are known goes to a stranger.
func TestStrangersLeaveASlot(t *testing.T) {
	l := NewLine(2, 0)
	stranger, user := Subject{Unknown, "a"}, Subject{Known, "a"}
	<-l.take(t, stranger)
	second := l.take(t, stranger)
	<-l.take(t, user)
	friend := l.take(t, Subject{Known, "b"})
	l.release(stranger)
	<-second // not the friend
	l.release(user)
	<-friend
	if l.pool.used != 2 || l.pool.unknown != 1 {
		t.Errorf("%d places are taken, %d by strangers", l.pool.used, l.pool.unknown)
	}
}
