package group

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// TestReadsOfATurn has more reads wait than one turn has room for: every turn looks at maxReadRows rows at
// most, and all are answered in the order in which they came.
func TestReadsOfATurn(t *testing.T) {
	g := newGroup(Config{})
	g.core.replica = new(replica)
	looked, turns := 0, 0
	var order []int
	costs := []int{1, maxReadRows, 33, 33, 900, 900, 100, 1, maxReadRows, 1}
	var calls []*call
	for i, rows := range costs {
		calls = append(calls, &call{rows: rows, done: make(chan callAnswer, 1),
			read: func(*core) outcome.Outcome {
				looked += rows
				order = append(order, i)
				return outcome.Done()
			}})
	}
	calls[3].claimed.Store(true) // its caller has gone
	for _, c := range calls {
		g.core.handle(event{call: c})
	}
	for ; len(g.core.reads) > 0; turns++ {
		looked = 0
		g.core.answerReads()
		if looked > maxReadRows || looked == 0 {
			t.Errorf("turn %d looked at %d rows", turns, looked)
		}
		if woken := len(g.queue.bell) > 0; woken != (len(g.core.reads) > 0) {
			t.Errorf("turn %d: %d reads are left, the next turn is asked for: %v", turns, len(g.core.reads), woken)
		}
		select {
		case <-g.queue.bell:
		default:
		}
	}
	if fmt.Sprint(order) != "[0 1 2 4 5 6 7 8 9]" {
		t.Errorf("order %v", order)
	}
	if bytes := maxReadRows * int(unsafe.Sizeof(scheme.Entry{})); bytes > 256<<10 {
		t.Errorf("a turn copies %d bytes", bytes)
	}
}

// TestListingInPages lists a directory that is larger than a turn has room for, turn by turn, while other
// reads come.
func TestListingInPages(t *testing.T) {
	g := openTest(t, nil)
	const children = 2*maxReadRows + 500
	want := make([]string, children)
	g.hold(g.turn.Lock()) // nobody else takes a turn
	unlock := sync.OnceFunc(g.turn.Unlock)
	defer unlock()
	for i := range want {
		want[i] = fmt.Sprintf("%05d", i)
		make, answer := g.core.replica.Machine().Tree().MakeDirectory(scheme.SplitLoose("/local/large/"+want[i]), "",
			scheme.Stamp{})
		if !answer.OK() {
			t.Fatal(answer)
		}
		make()
	}
	type result struct {
		list Described
		err  error
	}
	done := make(chan result, 1)
	go func() {
		list, _, err := g.List(context.Background(), coordination.Caller{}, scheme.SplitLoose("/local/large"))
		done <- result{list, err}
	}()
	turns := 0
	turn := func() {
		g.core.work()
		turns++
	}
	for {
		var r result
		listed := false
		eventually(t, "a turn of the listing, or its end", func() bool {
			select {
			case r = <-done:
				listed = true
			default:
			}
			return listed || !g.queue.empty() || len(g.core.reads) > 0
		})
		if listed {
			unlock()
			var names []string
			for _, child := range r.list.Children {
				names = append(names, child.Name)
			}
			if r.err != nil || !slices.Equal(names, want) || turns < 3 {
				t.Errorf("%v: %d names after %d turns", r.err, len(names), turns)
			}
			break
		}
		turn()
		other := &call{rows: 1, done: make(chan callAnswer, 1),
			read: func(*core) outcome.Outcome { return outcome.Done() }}
		g.queue.put(event{call: other})
		turn()
		if len(other.done) == 0 { // the next page was there before it
			turn()
		}
		if len(other.done) == 0 {
			t.Error("another read waits for more than a page of the listing")
		}
	}
}

// TestReadsShareARound: reads that come while a question is under way wait for the next one, together.
func TestReadsShareARound(t *testing.T) {
	var r readRounds
	passed := func(round *readRound) bool {
		select {
		case <-round.passed:
			return true
		default:
			return false
		}
	}
	first, one := r.join()
	second, none := r.join()
	third, nor := r.join()
	if one == 0 || none != 0 || nor != 0 || first == second || second != third {
		t.Fatalf("asked %d, %d, %d", one, none, nor)
	}
	if r.pass(one+7) != 0 || passed(first) {
		t.Error("the answer to another question counts")
	}
	again := r.again(first, one)
	if again == one || again == 0 || r.again(first, one) != 0 {
		t.Error("a lost question is put again once, under a new number")
	}
	if r.pass(one) != 0 || passed(first) {
		t.Error("the answer to the lost question counts")
	}
	two := r.pass(again)
	if two == 0 || !passed(first) || passed(second) {
		t.Error("an answer lets those go on who were there before the question, and the next question is put")
	}
	if r.drop(second) != 0 || r.underWay != second {
		t.Error("a round goes on as long as one read waits")
	}
	r.answer(one)
	if r.underWay.answered {
		t.Error("the answer to another question counts")
	}
	if r.answer(two); r.again(second, two) != 0 {
		t.Error("a question is put again although it was answered")
	}
	fourth, _ := r.join()
	if three := r.drop(third); three == 0 || r.underWay != fourth {
		t.Error("the next round waits for reads that have gone")
	}
	if r.drop(fourth) != 0 || r.underWay != nil || r.next != nil {
		t.Error("a round of nobody stays behind")
	}
}

// TestReadsOfAGroupAlone ask nobody; those of a server that leads others do.
func TestReadsOfAGroupAlone(t *testing.T) {
	g := openTest(t, nil)
	if err := g.CatchUp(t.Context()); err != nil || g.rounds.last != 0 {
		t.Errorf("a server without peers asked: %v", err)
	}
	c := openCluster(t, 3)
	leader, _ := c.leader()
	rounds := func() uint64 {
		r := &c.groups[leader].rounds
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return r.last
	}
	before := rounds()
	if err := c.groups[leader].CatchUp(t.Context()); err != nil || rounds() == before {
		t.Errorf("a server that leads did not ask: %v", err)
	}
}

// TestReadIsOverWhenItReturns: a caller whose time runs out while the group reads for him may go on with what
// the read has written, or throw it away, since nobody writes there any more.
func TestReadIsOverWhenItReturns(t *testing.T) {
	g := openTest(t, nil)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		var returned atomic.Bool
		read := false
		g.busy.Store(true) // so that the group's goroutine reads, and not this one
		_, err := g.Read(ctx, func(*coordination.Machine) outcome.Outcome {
			cancel()
			for range 1000 { // for the caller to see it
				if runtime.Gosched(); returned.Load() {
					t.Error("Read returned while it read")
					break
				}
			}
			read = true
			return outcome.Done()
		})
		returned.Store(true)
		if err != nil || !read {
			t.Fatalf("read: %v, %v", read, err)
		}
	}
}
