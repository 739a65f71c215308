package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/coordination"
)

func TestMessagesOfLogs(t *testing.T) {
	l := newLogs()
	l.read([]byte("time=1 level=INFO msg=stopped x=msg=no\ntime=2 level=WARN msg=\"a \\\"b\\\" c\" err=\"msg=d\"\n" +
		"time=3 level=INFO msg=stopped\ntime=4 level=DEBUG msg=\"raft: 7\"\npanic\n"))
	if l.counts["stopped"] != 2 || l.counts[`a "b" c`] != 1 || len(l.counts) != len(marks)+2 {
		t.Errorf("%v", l.counts)
	}
}

// Entries come between what clients did before and after them, also where goroutines recorded in another order.
func TestMergedHistory(t *testing.T) {
	w := &World{history: new(check.History), began: 100}
	for _, at := range []time.Duration{3, 1, 9} {
		w.history.Add(at, &check.Note{Text: fmt.Sprint(at)})
	}
	entry := func(at time.Duration, index coordination.Index) process.Executed {
		return process.Executed{At: 100 + at, Entry: coordination.Entry{Index: index}}
	}
	executed := []process.Executed{entry(2, 1), entry(4, 1), entry(11, 2)}
	text := ""
	for _, e := range w.merged(executed, map[time.Duration]int{102: 1, 104: 2, 111: 1}) {
		switch fact := e.Fact.(type) {
		case *check.Note:
			text += " " + fact.Text
		case *check.Executed:
			text += fmt.Sprintf(" %d:%d,%v", fact.Server, fact.Index, fact.Entry != nil)
		}
	}
	if want := " 1:1,true 3ns 1ns 2:1,false 9ns 1:2,true"; text != want {
		t.Errorf("%s, want%s", text, want)
	}
}
