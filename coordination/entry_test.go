package coordination

import (
	"testing"

	"github.com/coordd/coordd/scheme"
)

// commitTogether has all commands in flight in one entry.
func (r *rig) commitTogether() {
	r.t.Helper()
	r.take()
	r.index++
	commands := r.inFlight
	r.inFlight = nil
	r.replica.Committed(r.now, &Entry{Index: r.index, Term: r.term, Commands: commands})
	r.take()
	if err := r.machine.Check(); err != nil {
		r.t.Fatal(err)
	}
}

// TestResumeWatchSetWithinAnEntry describes between two writes that share an entry, and loses the leader
// before the client hears of the second: the next leader must not take it for seen. One that was set behind
// the entry has seen all of it.
func TestResumeWatchSetWithinAnEntry(t *testing.T) {
	for _, within := range []bool{true, false} {
		r := newRig(t)
		r.createNode("/local/n", relaxed)
		watcher, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		changer, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		r.request(changer, 1, Request{Kind: RequestCreate, Name: "s", Limit: 1})
		r.applyAll()
		r.said()
		describe := Request{Kind: RequestDescribe, Name: "s", WatchData: true}
		r.request(changer, 2, Request{Kind: RequestUpdate, Name: "s", Data: []byte("x")})
		if within {
			r.request(watcher, 1, describe)
		}
		r.request(changer, 3, Request{Kind: RequestUpdate, Name: "s", Data: []byte("y")})
		r.commitTogether()
		if !within {
			r.request(watcher, 1, describe)
		}
		var mark WatchMark
		for _, m := range r.messages {
			if m.Kind == MessageDescribed {
				mark = m.Mark
			}
		}
		if want := (Position{r.index, endOfEntry}); within {
			r.expect("2 #2 done false", "1 #1 described", "2 #3 done false",
				"1 #1 changed data=true owners=false")
		} else if r.expect("2 #2 done false", "2 #3 done false", "1 #1 described"); mark.At != want {
			t.Errorf("set at %v, want %v", mark.At, want)
		}
		a := r.leader.streams[watcher]
		roster := &Roster{Node: a.node.id, Session: session, Epoch: a.epoch, Path: "/local/n",
			Open: []OpenRequest{{Sequence: 1, Request: &describe, Watching: true, Mark: mark}}}
		r.lead()
		r.leader.Resume(r.now, watcher, roster)
		if within {
			r.expect("1 resumed", "1 #1 changed data=false owners=false")
		} else {
			r.expect("1 resumed")
		}
	}
}

// TestResumeSupersededWait supersedes a wait within the entry that began it: its time runs out, and that of
// the one in its place does not.
func TestResumeSupersededWait(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	holder, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 50_000})
	waiter, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 50_000})
	r.request(holder, 1, tryLock)
	r.request(waiter, 1, waitLock)
	r.request(waiter, 2, waitLock)
	r.commitTogether()
	r.expect("1 #1 done true", "2 #1 pending", "2 #1 Operation superseded by another request", "2 #2 pending")
	n := r.leader.streams[waiter].node.node
	l := n.find(n.sessions[2], n.semaphores["lock"])
	if want := (Position{r.index, 2}); l.waitEpoch != want {
		t.Fatalf("the wait began at %v, want %v", l.waitEpoch, want)
	}
	expiry := ExpireWaiter{Node: n.id, Session: 2, Semaphore: l.semaphore.id, Order: l.order,
		WaitEpoch: Position{r.index, 1}, Term: r.term}
	r.applyForeign(r.term, &expiry)
	r.expect()
	expiry.WaitEpoch.Place = 2
	r.applyForeign(r.term, &expiry)
	r.expect("2 #2 done false")
}

// Users and keys that are made in one entry have different ids, and a password that is set in the entry that added its
// user has another version.
func TestUsersOfOneEntry(t *testing.T) {
	r := newRig(t)
	for _, c := range []Command{
		&AddUser{CallID: CallID{1}, Name: "root", PasswordHash: "h"},
		&AddUser{CallID: CallID{2}, Name: "alice", PasswordHash: "h"},
		&SetPassword{CallID: CallID{3}, Name: "alice", PasswordHash: "other"},
		&RotateSigningKey{CallID: CallID{4}, Secret: []byte("s")},
	} {
		r.call(c)
	}
	r.commitTogether()
	known := r.machine.Accounts()
	root, _ := known.User("root")
	alice, _ := known.User("alice")
	index := uint64(r.index)
	if root.ID.Index != index || root.ID.Place != 0 || alice.ID.Place != 1 || alice.Version.Place != 2 ||
		alice.Version.Index != index {
		t.Errorf("got %v and %v", root, alice)
	}
	if key := known.SigningKeys()[0].ID; key.Index != index || key.Place != 3 ||
		key.String() == root.ID.String() {
		t.Errorf("the key is %v", key)
	}
	r.call(&RotateSigningKey{CallID: CallID{5}, Secret: []byte("t"), After: known.SigningKeys()[0].ID})
	r.call(&RotateSigningKey{CallID: CallID{6}, Secret: []byte("u"), After: known.SigningKeys()[0].ID})
	r.commitTogether()
	if keys := r.machine.Accounts().SigningKeys(); len(keys) != 2 || string(keys[1].Secret) != "t" {
		t.Errorf("of two rotations at once both count: %v", keys)
	}
}

// Calls that share an entry are remembered each, and one that came behind it is known not to be in it.
func TestRepeatedCallsOfOneEntry(t *testing.T) {
	r := newRig(t)
	before := r.index
	for i, path := range []string{"/local/a", "/local/a/b", "/local/a"} {
		r.call(&MakeDirectory{CallID: CallID{uint64(1 + i)}, Path: scheme.SplitLoose(path)})
	}
	r.commitTogether()
	y := &r.machine.calls
	for i := range 3 {
		if became, answer := y.recall(CallID{uint64(1 + i)}, before); became != answered || !answer.OK() {
			t.Errorf("call %d: %v %v", 1+i, became, answer)
		}
	}
	if became, _ := y.recall(CallID{9}, before); became != neverExecuted {
		t.Errorf("another call: %v", became)
	}
	y.complete = r.index // as if one of the entry had been forgotten
	if became, _ := y.recall(CallID{9}, r.index-1); became != unknown {
		t.Errorf("a call that may be in the entry: %v", became)
	}
	if became, _ := y.recall(CallID{9}, r.index); became != neverExecuted {
		t.Errorf("a call behind the entry: %v", became)
	}
}

// A panic leaves the commands before it executed, and the machine of no use to anybody.
func TestPanicWithinAnEntry(t *testing.T) {
	r := newRig(t)
	r.index++
	made := &MakeDirectory{CallID: CallID{1}, Path: scheme.SplitLoose("/local/a")}
	mustPanic(t, "an unknown command", func() {
		r.replica.Committed(r.now, &Entry{Index: r.index, Term: r.term,
			Commands: []Command{made, strangeCommand{}}})
	})
	if _, found := r.machine.tree.Lookup(made.Path); !found {
		t.Fatal("the first command was not executed")
	}
	for what, f := range map[string]func(){
		"the next entry": func() { r.machine.Apply(r.index+1, r.term, nil) },
		"a checkpoint":   func() { r.machine.Freeze() },
		"all rows":       func() { r.machine.AllRows() },
		"a digest":       func() { r.machine.Digest() },
	} {
		mustPanic(t, what, f)
	}
}

func TestEntriesThatNobodyWrites(t *testing.T) {
	commands := func(n int) []Command {
		list := make([]Command, n)
		for i := range list {
			list[i] = &MakeDirectory{Path: scheme.SplitLoose("/local/a")}
		}
		return list
	}
	r := newRig(t)
	r.machine.ApplyEntry(&Entry{Index: r.index + 1, Term: r.term, Commands: commands(MaxEntryCommands)})
	r.machine.ApplyEntry(&Entry{Index: r.index + 2, Term: r.term,
		Commands: []Command{&BeginLineage{Lineage: 3}}})
	r.index += 2
	mustPanic(t, "a command too many", func() {
		r.machine.ApplyEntry(&Entry{Index: r.index + 1, Term: r.term,
			Commands: commands(MaxEntryCommands + 1)})
	})
	mustPanic(t, "a lineage that is not alone", func() {
		r.machine.ApplyEntry(&Entry{Index: r.index + 1, Term: r.term,
			Commands: append(commands(1), &BeginLineage{Lineage: 4})})
	})
	if r.machine.Index() != r.index {
		t.Error("something of them was executed")
	}
}
