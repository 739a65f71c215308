package model

import (
	"slices"
	"strings"
	"testing"
)

// The comparison itself: it must see what is wrong, and only that.
func TestSameReplies(t *testing.T) {
	fixed := func(id uint64) Reply { return Reply{Kind: ChangedBy, ReqID: id} }
	loose := func(id uint64, group, block int) Reply {
		return Reply{Kind: ChangedBy, ReqID: id, Group: group, Block: block}
	}
	for _, c := range []struct {
		what      string
		want, got []Reply
		same      bool
	}{
		{"nothing", nil, nil, true},
		{"missing", []Reply{fixed(1)}, nil, false},
		{"too much", nil, []Reply{fixed(1)}, false},
		{"equal", []Reply{fixed(1), fixed(2)}, []Reply{fixed(1), fixed(2)}, true},
		{"fixed order", []Reply{fixed(1), fixed(2)}, []Reply{fixed(2), fixed(1)}, false},
		{"blocks in another order", []Reply{loose(1, 1, 0), loose(2, 1, 0), loose(3, 1, 1)},
			[]Reply{fixed(3), fixed(1), fixed(2)}, true},
		{"a block is not torn apart", []Reply{loose(1, 1, 0), loose(2, 1, 0), loose(3, 1, 1)},
			[]Reply{fixed(1), fixed(3), fixed(2)}, false},
		{"order within a block", []Reply{loose(1, 1, 0), loose(2, 1, 0)}, []Reply{fixed(2), fixed(1)}, false},
		{"order of the groups", []Reply{loose(1, 1, 0), loose(2, 2, 0)}, []Reply{fixed(2), fixed(1)}, false},
		{"ping", []Reply{{Kind: PingOut, Opaque: 1}}, []Reply{{Kind: PingOut, Opaque: 77}}, true},
		{"ping without a number", []Reply{{Kind: PingOut, Opaque: 1}}, []Reply{{Kind: PingOut}}, false},
		{"stray field", []Reply{{Kind: PingOut, Opaque: 1}}, []Reply{{Kind: PingOut, Opaque: 1, Session: 3}},
			false},
		{"missing description", []Reply{{Kind: Result, Description: &Description{}}},
			[]Reply{{Kind: Result}}, false},
		{"other owner", []Reply{{Description: &Description{Owners: []LinkDescription{{Order: 1}}}}},
			[]Reply{{Description: &Description{Owners: []LinkDescription{{Order: 2}}}}}, false},
		{"owner missing", []Reply{{Description: &Description{Owners: []LinkDescription{{Order: 1}}}}},
			[]Reply{{Description: &Description{}}}, false},
	} {
		if same := sameReplies(c.want, c.got); same != c.same {
			t.Errorf("%s: same is %v", c.what, same)
		}
	}
}

// Shrinking leaves exactly the steps without which nothing fails.
func TestShrink(t *testing.T) {
	var steps []step
	for i := range 100 {
		steps = append(steps, step{op: opSend, slot: i})
	}
	needed := []int{3, 50, 51, 99}
	tries := 0
	small := shrink(steps, func(some []step) bool {
		tries++
		for _, slot := range needed {
			if !slices.ContainsFunc(some, func(s step) bool { return s.slot == slot }) {
				return false
			}
		}
		return true
	})
	var left []int
	for _, s := range small {
		left = append(left, s.slot)
	}
	if !slices.Equal(left, needed) || tries > 1000 {
		t.Errorf("left %v after %d tries, want %v", left, tries, needed)
	}
}

// The same seed draws the same steps, whatever ran before: a reported seed can be run again.
func TestSeedsAreRepeatable(t *testing.T) {
	draw := func() []step {
		var marks Marks
		taken, _, _ := sequence(t, 7, &marks)
		return taken
	}
	first, second := draw(), draw()
	if len(first) == 0 || !slices.Equal(first, second) {
		t.Errorf("%d steps, then %d others", len(first), len(second))
	}
}

// A difference is seen, and the transcript shows what either side sent.
func TestDifferenceIsShown(t *testing.T) {
	var trace strings.Builder
	s := newGenerator(1).setup
	r, err := newRun(s, nil, &trace)
	if err != nil {
		t.Fatal(err)
	}
	if !r.do(s.first) {
		t.Fatal(r.failure)
	}
	r.model.DropNode() // behind the back of the rings
	start := step{op: opStart, session: sessionNew,
		request: Request{Kind: Start, Path: nodePath, TimeoutMillis: 1000}}
	if r.do(start) || r.failure == "" {
		t.Error("the difference was not seen")
	}
	for _, line := range []string{"c0: start on server", "-    model  stream 1 <- failure 400140",
		"+    coordd  stream 1 <- started session=1"} {
		if !strings.Contains(trace.String(), line) {
			t.Errorf("the transcript lacks %q:\n%s", line, trace.String())
		}
	}
}
