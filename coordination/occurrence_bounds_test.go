package coordination

import (
	"testing"

	"github.com/coordd/coordd/scheme"
)

// TestExpectedZero: version 0 means "it is not there". Before versions count, every semaphore has version 0, and
// an update that expects none replaces the data of one that is there.
func TestExpectedZero(t *testing.T) {
	m, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	index := Index(0)
	apply := func(c Command) []Effect {
		index++
		return m.ApplyEntry(&Entry{Index: index, Term: 1, Commands: []Command{c}})
	}
	apply(&CreateNode{Path: scheme.SplitLoose("/local/n")})
	apply(&Attach{Node: 1, Epoch: Epoch{1, 1}, TimeoutMillis: 1000})
	apply(&CreateSemaphore{Origin: Origin{Node: 1, Session: 1, Address: Address{Epoch: Epoch{1, 1}, Sequence: 1}},
		Name: "s", Limit: 1, Data: []byte("precious")})
	apply(&UpdateData{CallID: CallID{1}, Node: 1, Name: "s", Data: []byte("new"), Expected: 0})
	if row := m.FindSemaphore(1, "s"); string(row.Data) != "precious" {
		t.Errorf("a semaphore that was to be made, if it was not there, has data %q instead of %q",
			row.Data, "precious")
	}
}

// TestWhoDeleted: alice's session makes, changes and deletes a semaphore. Every server is to know that it was
// she; her session, and with it her name, is soon gone.
func TestWhoDeleted(t *testing.T) {
	r := newVersionsRig(t)
	r.machine.Observe()
	r.machine.Occurred()
	r.apply(&CreateSemaphore{Origin: r.origin(), Name: "s", Limit: 1, Data: []byte("a")})
	r.apply(&UpdateSemaphore{Origin: r.origin(), Name: "s", Data: []byte("b")})
	r.apply(&DeleteSemaphore{Origin: r.origin(), Name: "s"})
	for _, o := range r.machine.Occurred() {
		if o.More == nil || o.More.User != "alice" {
			t.Errorf("occurrence of kind %d by session %d has no user", o.Kind, o.Session)
		}
	}
}

// TestActOfManyWords: a call that repeats one action 10,000 times leaves one permission, and an occurrence of
// hundreds of kilobytes, made on the turn of every server and kept whole by the ring.
func TestActOfManyWords(t *testing.T) {
	m, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	m.ApplyEntry(&Entry{Index: 1, Term: 1, Commands: []Command{&CreateNode{Path: scheme.SplitLoose("/local/n")}}})
	m.Observe()
	c := &ModifyPermissions{CallID: CallID{1}, Path: scheme.SplitLoose("/local/n")}
	for range 10_000 {
		c.Change.Actions = append(c.Change.Actions, scheme.Action{Kind: scheme.Set, Subject: "bob",
			Names: []string{"ydb.granular.select_row", "ydb.granular.update_row", "ydb.granular.erase_row"}})
	}
	effects := m.ApplyEntry(&Entry{Index: 2, Term: 1, Commands: []Command{c}})
	if answer := effects[len(effects)-1].Outcome; !answer.OK() {
		t.Fatal(answer)
	}
	for _, o := range m.Occurred() {
		if n := len(o.More.Target); n > 1024 {
			t.Errorf("the text of the act has %d bytes", n)
		}
	}
}
