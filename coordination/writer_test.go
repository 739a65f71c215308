package coordination_test

import (
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// writer writes commands to a machine by hand, all in term 1.
type writer struct {
	machine *coordination.Machine
	counter uint64
}

type attachedSession struct {
	node  coordination.NodeID
	id    coordination.SessionID
	epoch coordination.Epoch
}

func (w *writer) apply(c coordination.Command) []coordination.Effect {
	return w.machine.Apply(w.machine.Index()+1, 1, c)
}

func (w *writer) epoch() coordination.Epoch {
	w.counter++
	return coordination.Epoch{Term: 1, Counter: w.counter}
}

func (w *writer) call() coordination.CallID {
	w.counter++
	return coordination.CallID{Nonce: w.counter}
}

// createNode creates a coordination node and returns its id.
func (w *writer) createNode(t testing.TB, path string) coordination.NodeID {
	t.Helper()
	parts := scheme.SplitLoose(path)
	w.apply(&coordination.CreateNode{CallID: w.call(), Path: parts})
	entry, found := w.machine.Tree().Lookup(parts)
	if !found || entry.Node == 0 {
		t.Fatalf("%s was not created", path)
	}
	return entry.Node
}

// attach makes a session with a timeout of one second.
func (w *writer) attach(node coordination.NodeID) attachedSession {
	epoch := w.epoch()
	effects := w.apply(&coordination.Attach{Node: node, Epoch: epoch, TimeoutMillis: 1000})
	return attachedSession{node, effects[0].Session, epoch}
}

func (w *writer) origin(s attachedSession) coordination.Origin {
	w.counter++
	return coordination.Origin{Node: s.node, Session: s.id,
		Address: coordination.Address{Epoch: s.epoch, Sequence: coordination.Sequence(w.counter)}}
}
