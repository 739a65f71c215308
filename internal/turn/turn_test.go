package turn

import (
	"sync"
	"testing"
)

// pile is where work is left.
type pile struct {
	mutex sync.Mutex
	left  int
}

func (p *pile) leave() {
	p.mutex.Lock()
	p.left++
	p.mutex.Unlock()
}

// takeAtMost takes work away, at most n pieces, and reports how many it took.
func (p *pile) takeAtMost(n int) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	n = min(n, p.left)
	p.left -= n
	return n
}

func (p *pile) waiting() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.left > 0
}

// TestNothingIsForgotten: bringers that do at most a piece each and never wait, and one owner, do all the
// work that is left, one at a time.
func TestNothingIsForgotten(t *testing.T) {
	const bringers, each = 8, 5000
	var left pile
	bell := NewBell()
	turn := New(bell, left.waiting)
	done, all := 0, make(chan struct{}) // the turn protects done: the race detector would see two at a time
	work := func(n int) {
		if done += left.takeAtMost(n); done == bringers*each {
			close(all)
			done++ // once
		}
	}
	ended := make(chan struct{})
	go func() { // the owner
		defer close(ended)
		for {
			select {
			case <-bell:
				turn.Lock()
				work(10)
				turn.Unlock()
			case <-all:
				return
			}
		}
	}()
	for range bringers {
		go func() {
			for range each {
				left.leave()
				if _, free := turn.TryLock(); free {
					work(1)
					turn.Unlock()
				}
			}
		}()
	}
	<-ended // it hangs if anything is forgotten
	if left.waiting() {
		t.Error("there is work left after all of it was done")
	}
}

// TestUnlockRings: the owner is woken for what a holder leaves, and for nothing else.
func TestUnlockRings(t *testing.T) {
	var left pile
	bell := NewBell()
	turn := New(bell, left.waiting)
	turn.Lock()
	if _, free := turn.TryLock(); free {
		t.Fatal("two have the turn")
	}
	turn.Unlock()
	if len(bell) != 0 {
		t.Error("the bell was rung for nothing")
	}
	turn.Lock()
	left.leave()
	turn.Unlock()
	if len(bell) != 1 {
		t.Error("the bell was not rung for what was left")
	}
}

// TestTokens: a token is good for its own turn, and for no later one.
func TestTokens(t *testing.T) {
	turn := New(NewBell(), func() bool { return false })
	first := turn.Lock()
	first.Check()
	if _, free := turn.TryLock(); free {
		t.Error("the turn is taken twice")
	}
	turn.Unlock()
	second, _ := turn.TryLock()
	second.Check()
	defer func() {
		if recover() == nil {
			t.Error("the token of an earlier turn is good")
		}
	}()
	first.Check()
}
