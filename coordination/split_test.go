package coordination_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/coordination/codec"
)

// TestAnySplit executes lists of commands with an entry each, and then in entries of random sizes, as they
// are stored: the effects must be the same, and the state, but for where in the log a command is.
func TestAnySplit(t *testing.T) {
	shared := map[string]int{}
	for seed := range uint64(30) {
		s := newSplitting(t, seed)
		for range 3 {
			s.again(shared)
		}
	}
	for _, command := range []string{"acquire", "user", "key", "expiry of a wait in the same entry"} {
		if shared[command] == 0 {
			t.Errorf("no %s at a place other than 0: %v", command, shared)
		}
	}
}

// splitting is a list of commands, and what came of them with an entry each.
type splitting struct {
	t       *testing.T
	random  *rand.Rand
	log     []logEntry // the command at i had index i+1
	effects []coordination.Effect
	rows    []coordination.Row
}

func newSplitting(t *testing.T, seed uint64) *splitting {
	h, m := newHistory(seed), newMachine(t)
	s := &splitting{t: t, random: rand.New(rand.NewPCG(seed, 3))}
	for range 1200 {
		e := h.next(m)
		effects := m.Apply(coordination.Index(len(h.log)), e.term, e.command)
		h.learn(effects)
		s.effects = append(s.effects, effects...)
	}
	s.log, s.rows = h.log, m.AllRows()
	return s
}

// again executes the list in other entries.
func (s *splitting) again(shared map[string]int) {
	s.t.Helper()
	m := newMachine(s.t)
	m.Apply(coordination.Index(s.random.IntN(3)+1), 1, nil)
	at := make([]coordination.Position, len(s.log)) // of each command, now
	var effects []coordination.Effect
	for from := 0; from < len(s.log); {
		entry := coordination.Entry{Index: m.Index() + 1, Term: s.log[from].term}
		stored := codec.BeginEntry(nil, 0)
		for most := 1 + s.random.IntN(1+s.random.IntN(40)); len(entry.Commands) < most &&
			s.fits(&entry, from); from++ {
			at[from] = coordination.Position{Index: entry.Index,
				Place: coordination.Place(len(entry.Commands))}
			c := moved(s.log[from].command, at)
			entry.Commands = append(entry.Commands, c)
			stored = codec.AppendToEntry(stored, c)
			count(shared, c, at[from])
		}
		if len(entry.Commands) == 0 {
			from++ // one without a command
			stored = nil
		}
		if err := codec.DecodeEntry(stored, &entry); err != nil {
			s.t.Fatal(err)
		}
		effects = append(effects, m.ApplyEntry(&entry)...)
		if err := m.Check(); err != nil {
			s.t.Fatalf("after %#v: %v", entry.Commands, err)
		}
	}
	s.compare(effects, m, at)
}

// fits reports whether the next command may be in the entry that has been begun.
func (s *splitting) fits(entry *coordination.Entry, next int) bool {
	if next == len(s.log) || s.log[next].command == nil || s.log[next].term != entry.Term {
		return false
	}
	n := len(entry.Commands)
	return n == 0 || !coordination.Alone(s.log[next].command) && !coordination.Alone(entry.Commands[n-1])
}

func (s *splitting) compare(effects []coordination.Effect, m *coordination.Machine, at []coordination.Position) {
	s.t.Helper()
	if len(effects) != len(s.effects) {
		s.t.Fatalf("%d effects, with an entry each %d", len(effects), len(s.effects))
	}
	for i, want := range s.effects {
		want.WaitEpoch = movedPosition(want.WaitEpoch, at)
		if !reflect.DeepEqual(effects[i], want) {
			s.t.Fatalf("effect %d is %+v, with an entry each %+v", i, effects[i], want)
		}
	}
	rows := m.AllRows()
	if len(rows) != len(s.rows) {
		s.t.Fatalf("%d rows, with an entry each %d", len(rows), len(s.rows))
	}
	for i, row := range s.rows[:len(rows)-1] { // but for the machine's own
		if want := movedRow(row, at); !reflect.DeepEqual(rows[i], want) {
			s.t.Fatalf("row %+v, with an entry each %+v", rows[i], want)
		}
	}
	stored := make(rowStore)
	stored.put(rows)
	if restored := stored.restore(s.t); restored.Digest() != m.Digest() {
		s.t.Error("another state comes back from the rows")
	}
}

// count notes what has shared an entry.
func count(shared map[string]int, c coordination.Command, at coordination.Position) {
	if at.Place == 0 {
		return
	}
	switch c := c.(type) {
	case *coordination.AcquireSemaphore:
		shared["acquire"]++
	case *coordination.AddUser:
		shared["user"]++
	case *coordination.RotateSigningKey:
		shared["key"]++
	case *coordination.ExpireWaiter:
		if c.WaitEpoch.Index == at.Index {
			shared["expiry of a wait in the same entry"]++
		}
	}
}

// movedPosition is where a command is now that was at p when each had an entry of its own.
func movedPosition(p coordination.Position, at []coordination.Position) coordination.Position {
	if p.Index == 0 {
		return p
	}
	return at[p.Index-1]
}

func movedAccount(p accounts.Position, at []coordination.Position) accounts.Position {
	now := movedPosition(coordination.Position{Index: coordination.Index(p.Index)}, at)
	return accounts.Position{Index: uint64(now.Index), Place: uint32(now.Place)}
}

// moved is a command as it is if those before it are where at says.
func moved(c coordination.Command, at []coordination.Position) coordination.Command {
	switch c := c.(type) {
	case *coordination.ExpireWaiter:
		now := *c
		now.WaitEpoch = movedPosition(c.WaitEpoch, at)
		return &now
	case *coordination.RotateSigningKey:
		now := *c
		now.After = movedAccount(c.After, at)
		return &now
	}
	return c
}

func movedRow(row coordination.Row, at []coordination.Position) coordination.Row {
	switch row := row.(type) {
	case coordination.LinkRow:
		row.WaitEpoch = movedPosition(row.WaitEpoch, at)
		return row
	case coordination.UserRow:
		row.ID, row.Version = movedAccount(row.ID, at), movedAccount(row.Version, at)
		return row
	case coordination.SigningKeyRow:
		row.ID = movedAccount(row.ID, at)
		return row
	case coordination.PathRow:
		if row.Created.TxID != 0 {
			row.Created.TxID = uint64(at[row.Created.TxID-1].Index)
		}
		return row
	}
	return row
}
