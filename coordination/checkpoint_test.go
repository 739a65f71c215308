package coordination_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
)

const database = "/local"

// rowStore is a stored checkpoint: what the real one keeps in its database file.
type rowStore map[string]string

// put stores rows as the server does. Rows of one checkpoint must come under their final key once only.
func (s rowStore) put(rows []coordination.Row) {
	for _, row := range rows {
		key, value, deleted := codec.EncodeRow(row)
		if deleted {
			delete(s, string(key))
		} else {
			s[string(key)] = string(value)
		}
	}
}

func (s rowStore) drop(node coordination.NodeID) {
	prefix := string(codec.NodePrefix(node))
	maps.DeleteFunc(s, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
}

func (s rowStore) restore(t testing.TB) *coordination.Machine {
	t.Helper()
	if len(s) == 0 {
		return newMachine(t)
	}
	restorer, err := coordination.NewRestorer(database, coordination.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		row, err := codec.DecodeRow([]byte(key), []byte(s[key]))
		if err != nil {
			t.Fatal(err)
		}
		if err := restorer.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	m, err := restorer.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newMachine(t testing.TB) *coordination.Machine {
	t.Helper()
	m, err := coordination.NewMachine(database, coordination.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkpointed is a machine whose checkpoints are taken while it works, next to a second one that only
// follows the log and so cannot be disturbed by them.
type checkpointed struct {
	t       *testing.T
	history *history
	live    *coordination.Machine
	effects [][]coordination.Effect // of each entry of the log

	stored      rowStore // the last complete checkpoint
	storedIndex coordination.Index

	underWay *coordination.Checkpoint
	staged   rowStore // what the one under way will make of stored
	captured int      // rows it has given

	follower *coordination.Machine // at the index of the last complete checkpoint
	seen     map[string]int        // situations that the test must have met
}

func newCheckpointed(t *testing.T, seed uint64) *checkpointed {
	return &checkpointed{t: t, history: newHistory(seed), live: newMachine(t), follower: newMachine(t),
		stored: make(rowStore), seen: make(map[string]int)}
}

// step applies one more command.
func (c *checkpointed) step() {
	c.t.Helper()
	e := c.history.next(c.live)
	effects := c.apply(c.live, len(c.history.log)-1)
	c.effects = append(c.effects, effects)
	c.history.learn(effects)
	if _, drop := e.command.(*coordination.DropNode); drop && len(effects) == 2 {
		c.seen["a node dropped"]++
		if c.underWay != nil {
			c.seen["a node dropped during a checkpoint"]++
		}
	}
	if err := c.live.Check(); err != nil {
		c.t.Fatalf("after %#v: %v", e.command, err)
	}
	rows := c.live.AllRows()
	used := uint64(0)
	for _, row := range rows {
		used += coordination.RowBytes(row)
	}
	if used != c.live.Used() {
		c.t.Fatalf("after %#v: the rows count %d bytes, it says %d", e.command, used, c.live.Used())
	}
	for _, effect := range effects {
		if effect.Refusal == coordination.StateFull {
			c.seen["no space left in the state"]++
		}
		if effect.Refusal == coordination.StateFull && !grows(e.command) {
			c.t.Fatalf("%#v is refused: %s", e.command, effect.Refusal.Text)
		}
	}
	if sum := rows[len(rows)-1].(coordination.MachineRow).Digest; c.live.Digest() != sum {
		c.t.Fatalf("after %#v: digest %016x, sum of all rows %016x", e.command, c.live.Digest(), sum)
	}
}

// grows reports whether a command may make the state larger.
func grows(c coordination.Command) bool {
	switch c := c.(type) {
	case *coordination.Attach:
		return c.Session == 0
	case *coordination.CreateSemaphore, *coordination.UpdateSemaphore, *coordination.AcquireSemaphore,
		*coordination.CreateNode, *coordination.MakeDirectory, *coordination.ModifyPermissions,
		*coordination.AddUser, *coordination.SetPassword:
		return true
	}
	return false
}

// apply passes entry i of the log, as it is stored, to a machine.
func (c *checkpointed) apply(m *coordination.Machine, i int) []coordination.Effect {
	c.t.Helper()
	e := c.history.log[i]
	command, err := codec.DecodeCommand(codec.AppendCommand(nil, e.command))
	if err != nil {
		c.t.Fatal(err)
	}
	return append([]coordination.Effect{}, m.Apply(coordination.Index(i+1), e.term, command)...)
}

// replay brings a machine up to an index and demands that it answers everything as the live one did.
func (c *checkpointed) replay(m *coordination.Machine, to coordination.Index) {
	c.t.Helper()
	for m.Index() < to {
		i := int(m.Index())
		if effects := c.apply(m, i); !reflect.DeepEqual(effects, c.effects[i]) {
			c.t.Fatalf("entry %d %#v: effects were %+v, replayed they are %+v", i+1, c.history.log[i].command,
				c.effects[i], effects)
		}
	}
}

func (c *checkpointed) freeze() {
	c.underWay = c.live.Freeze()
	c.captured = 0
	c.staged = maps.Clone(c.stored)
	for _, id := range c.underWay.Dropped() {
		c.staged.drop(id)
		c.seen["a dropped node forgotten"]++
	}
}

// capture takes a slice of the checkpoint under way, and completes it if that was the last.
func (c *checkpointed) capture(limit int) {
	c.t.Helper()
	if rows := c.underWay.Next(limit); rows != nil {
		c.staged.put(rows)
		c.captured += len(rows)
		return
	}
	c.stored, c.storedIndex, c.underWay = c.staged, c.underWay.Index(), nil
	c.seen["a checkpoint completed"]++
	if c.live.Index() > c.storedIndex {
		c.seen["a checkpoint completed behind the state"]++
	}
	c.verifyStored()
}

// verifyStored compares the complete checkpoint with the follower: row by row, restored, and with the rest
// replayed.
func (c *checkpointed) verifyStored() {
	c.t.Helper()
	c.replay(c.follower, c.storedIndex)
	want := make(rowStore)
	want.put(c.follower.AllRows())
	if !maps.Equal(c.stored, want) {
		c.t.Fatalf("the checkpoint at index %d differs: %s", c.storedIndex, differences(c.t, c.stored, want))
	}
	restored := c.stored.restore(c.t)
	c.same(restored, c.follower)
	c.replay(restored, c.live.Index())
	c.same(restored, c.live)
}

func (c *checkpointed) same(got, want *coordination.Machine) {
	c.t.Helper()
	if got.Used() != want.Used() || got.Limits() != want.Limits() {
		c.t.Fatalf("index %d: %d bytes under %+v, want %d under %+v", want.Index(), got.Used(), got.Limits(),
			want.Used(), want.Limits())
	}
	if got.Digest() != want.Digest() || !reflect.DeepEqual(got.AllRows(), want.AllRows()) {
		c.t.Fatalf("index %d: digest %016x, rows %+v\nwant %016x, rows %+v", want.Index(), got.Digest(),
			got.AllRows(), want.Digest(), want.AllRows())
	}
}

// crash forgets the live machine and a checkpoint under way, and starts again from what is stored.
func (c *checkpointed) crash() {
	c.t.Helper()
	if c.underWay != nil {
		c.seen["a crash during a checkpoint"]++
	}
	before := c.live
	c.underWay, c.staged = nil, nil
	c.live = c.stored.restore(c.t)
	c.replay(c.live, before.Index())
	c.same(c.live, before)
}

func differences(t *testing.T, got, want rowStore) string {
	var b strings.Builder
	show := func(s rowStore, key string) any {
		value, found := s[key]
		if !found {
			return "none"
		}
		row, err := codec.DecodeRow([]byte(key), []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(got)), maps.Keys(want))
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		if got[key] != want[key] {
			fmt.Fprintf(&b, "\n%x: %+v, want %+v", key, show(got, key), show(want, key))
		}
	}
	return b.String()
}

// Commands and the slices of checkpoints come in any order, machines crash; whatever happens, a complete
// checkpoint holds exactly the state at its index, and the log behind it leads to the present.
func TestCheckpointsWhileCommandsGoOn(t *testing.T) {
	const seeds, steps = 12, 1000
	seen := make(map[string]int)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newCheckpointed(t, seed)
			random := c.history.random
			sliceChance, limit := 1+random.IntN(5), 1+random.IntN(6)
			for len(c.history.log) < steps {
				switch at := random.IntN(100); {
				case c.underWay == nil && at < 10:
					c.freeze()
				case c.underWay != nil && at < 10*sliceChance:
					c.capture(limit)
				case at == 99:
					c.crash()
				default:
					c.step()
				}
			}
			for c.underWay != nil {
				c.capture(limit)
			}
			for what, times := range c.seen {
				seen[what] += times
			}
		})
	}
	for _, what := range []string{"a node dropped", "a node dropped during a checkpoint",
		"a dropped node forgotten", "a checkpoint completed", "a checkpoint completed behind the state",
		"a crash during a checkpoint",
		"no space left in the state"} {
		if seen[what] < seeds/2 {
			t.Errorf("%s: only %d times", what, seen[what])
		}
	}
	t.Log(seen)
}

// A lock that comes and goes between two checkpoints costs no row.
func TestBusyLockCostsNoRow(t *testing.T) {
	m := newMachine(t)
	w := &writer{machine: m}
	w.createNode(t, "/local/a")
	session := w.attach(1)
	w.apply(&coordination.CreateSemaphore{Origin: w.origin(session), Name: "lock", Limit: 1})
	drain(m.Freeze())
	for range 1000 {
		w.apply(&coordination.AcquireSemaphore{Origin: w.origin(session), Name: "lock", Count: 1})
		w.apply(&coordination.AcquireSemaphore{Origin: w.origin(session), Name: "ephemeral", Count: 1,
			Ephemeral: true})
		w.apply(&coordination.ReleaseSemaphore{Origin: w.origin(session), Name: "lock"})
		w.apply(&coordination.ReleaseSemaphore{Origin: w.origin(session), Name: "ephemeral"})
	}
	rows := drain(m.Freeze())
	if len(rows) != 2 || rows[0].Key().Kind != coordination.RowNode ||
		rows[1].Key().Kind != coordination.RowMachine {
		t.Errorf("%+v", rows)
	}
}

func TestDroppedNodesAreToldOnce(t *testing.T) {
	w := &writer{machine: newMachine(t)}
	id := w.createNode(t, "/local/a")
	w.attach(id)
	w.apply(&coordination.DropNode{CallID: w.call(), Path: scheme.SplitLoose("/local/a")})
	first := w.machine.Freeze()
	if rows := drain(first); !slices.Equal(first.Dropped(), []coordination.NodeID{id}) ||
		rows[len(rows)-1].Key().Kind != coordination.RowMachine {
		t.Errorf("dropped %v, rows %+v", first.Dropped(), rows)
	}
	if second := w.machine.Freeze(); len(second.Dropped()) > 0 {
		t.Errorf("dropped again: %v", second.Dropped())
	}
}

// Slices are bounded: a checkpoint of many rows comes in pieces of about the size asked for.
func TestSlicesAreBounded(t *testing.T) {
	m := newMachine(t)
	w := &writer{machine: m}
	w.createNode(t, "/local/a")
	for range 100 {
		w.attach(1)
	}
	for i := range 100 {
		w.apply(&coordination.MakeDirectory{CallID: w.call(),
			Path: scheme.Path{"local", fmt.Sprint("directory", i)}, Owner: scheme.RootOwner})
	}
	cp := m.Freeze()
	slices, rows := 0, 0
	for batch := cp.Next(10); batch != nil; batch = cp.Next(10) {
		if len(batch) > 11 { // the closing row may come on top
			t.Errorf("a slice of %d rows", len(batch))
		}
		slices, rows = slices+1, rows+len(batch)
	}
	if rows != 100+1+102+1 || slices < 20 { // sessions, node, paths, machine
		t.Errorf("%d rows in %d slices", rows, slices)
	}
	if cp.Next(10) != nil {
		t.Error("a drained checkpoint gives more")
	}
}

func TestOnlyOneCheckpointAtATime(t *testing.T) {
	m := newMachine(t)
	m.Freeze()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	m.Freeze()
}

func drain(cp *coordination.Checkpoint) []coordination.Row {
	var all []coordination.Row
	for rows := cp.Next(3); rows != nil; rows = cp.Next(3) {
		all = append(all, rows...)
	}
	return all
}

// A checkpoint that lost or changed a row is not taken for a good one.
func TestBrokenCheckpointsAreRefused(t *testing.T) {
	h := newHistory(1)
	m := newMachine(t)
	for range 500 {
		e := h.next(m)
		h.learn(m.Apply(coordination.Index(len(h.log)), e.term, e.command))
	}
	// its numbers are covered by the store's checksum only
	machineKey, _, _ := codec.EncodeRow(coordination.MachineRow{})
	good := make(rowStore)
	good.put(m.AllRows())
	if len(good) < 15 {
		t.Fatalf("only %d rows", len(good))
	}
	good.restore(t)
	for _, missing := range slices.Sorted(maps.Keys(good)) {
		broken := maps.Clone(good)
		delete(broken, missing)
		if err := tryRestore(broken); err == nil {
			t.Errorf("row %x is missing, and nobody noticed", missing)
		}
	}
	for _, changed := range slices.Sorted(maps.Keys(good)) {
		for at := 1; at < len(good[changed]); at++ {
			broken := maps.Clone(good)
			value := []byte(good[changed])
			value[at] ^= 1
			broken[changed] = string(value)
			if err := tryRestore(broken); err == nil && changed != string(machineKey) {
				t.Errorf("row %x has %x instead of %x, and nobody noticed", changed, value, good[changed])
			}
		}
	}
}

func tryRestore(s rowStore) error {
	restorer, err := coordination.NewRestorer(database, coordination.DefaultLimits())
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		row, err := codec.DecodeRow([]byte(key), []byte(s[key]))
		if err != nil {
			return err
		}
		if err := restorer.Add(row); err != nil {
			return err
		}
	}
	_, err = restorer.Finish()
	return err
}
