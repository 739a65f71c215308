package share

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// fill takes as many places for a subject as it may have.
func (p *Pool) fill(s Subject) (had int) {
	for p.Enter(s) {
		had++
	}
	return had
}

// TestShares takes as much as each subject may have, one after the other, and gives all back.
func TestShares(t *testing.T) {
	known := func(name string) Subject { return Subject{Known, name} }
	unknown := func(name string) Subject { return Subject{Unknown, name} }
	for _, test := range []struct {
		name     string
		total    int
		subjects []Subject
		want     []int
	}{
		// of 1,600 places 100 are the owner's
		{"known ones", 1600, []Subject{known("a"), known("b"), known("c")}, []int{750, 375, 188}},
		{"unknown ones have a quarter", 1600, []Subject{unknown("a"), unknown("b"), unknown("c"), known("a")},
			[]int{200, 100, 50, 575}},
		{"the owner has what is left, and the others not the owner's",
			1600, []Subject{known(""), known("a"), {Class: Owner}}, []int{1500, 0, 100}},
		{"the owner's do not count twice", 1600, []Subject{{Class: Owner}, known("a")}, []int{1600, 0}},
		{"arriving ones are no unknown ones", 1600, []Subject{{Arriving, "a"}, unknown("a")}, []int{750, 200}},
		{"one place", 1, []Subject{unknown("a"), known("a")}, []int{1, 0}},
		{"two places", 2, []Subject{unknown("a"), unknown("b"), known("a"), known("b")}, []int{1, 0, 1, 0}},
	} {
		p := NewPool(test.total)
		for i, s := range test.subjects {
			if got := p.fill(s); got != test.want[i] {
				t.Errorf("%s: subject %d has %d places, want %d", test.name, i, got, test.want[i])
			}
		}
		for i, s := range test.subjects {
			for range test.want[i] {
				p.Leave(s)
			}
		}
		if p.used+p.unknown+p.owner+len(p.by) != 0 {
			t.Errorf("%s: something is left: %+v", test.name, p)
		}
	}
}

// TestNewcomersGetIn has one greedy subject after the other take its share: as much is left for the next.
func TestNewcomersGetIn(t *testing.T) {
	p := NewPool(10_000)
	for n := range 12 {
		if p.fill(Subject{Known, fmt.Sprint(n)}) == 0 {
			t.Fatalf("subject %d has no place", n)
		}
	}
}

// take waits for a place in the background.
func (l *Line) take(t *testing.T, s Subject) <-chan func() {
	t.Helper()
	had := make(chan func(), 1)
	before := l.Waiting(s)
	go func() {
		release, err := l.Acquire(context.WithoutCancel(t.Context()), s)
		if err != nil {
			close(had)
			return
		}
		had <- release
	}()
	for l.Waiting(s) == before && len(had) == 0 {
	}
	return had
}

// TestOneSubjectOneTurn has a subject that wants all places get half of them, while the other half is free.
func TestOneSubjectOneTurn(t *testing.T) {
	l := NewLine(2, 0)
	greedy, other := Subject{Known, "greedy"}, Subject{Known, "other"}
	first := <-l.take(t, greedy)
	second := l.take(t, greedy)
	(<-l.take(t, other))()
	if len(second) != 0 {
		t.Error("the greedy one has both places")
	}
	first()
	(<-second)()
	if l.pool.used != 0 || l.Waiting(greedy) != 0 {
		t.Errorf("%d places are used", l.pool.used)
	}
}

// TestGivingUp ends the wait of callers, before and when it is their turn.
func TestGivingUp(t *testing.T) {
	l := NewLine(1, 0)
	s := Subject{Known, "a"}
	hold := <-l.take(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if _, err := l.Acquire(ctx, s); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	hold()
	for range 100 { // either may come first
		if release, err := l.Acquire(ctx, s); err == nil {
			release()
		}
	}
	if l.pool.used != 0 || l.Waiting(s) != 0 || len(l.queues[1].by) != 0 {
		t.Errorf("%d places are used, %d wait", l.pool.used, l.Waiting(s))
	}
}
