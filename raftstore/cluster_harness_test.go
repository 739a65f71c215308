package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peers"
)

// history records the entries on which all members of a test cluster must agree.
type history struct {
	mu       sync.Mutex
	changed  sync.Cond
	entries  map[uint64]Entry
	problems []string
	acked    []string
}

func newHistory() *history {
	h := &history{entries: map[uint64]Entry{}}
	h.changed.L = &h.mu
	return h
}

// machine is the handler of one member: a set of commands, checkpointed as rows.
type machine struct {
	h     *history
	name  string
	store *Store
	work  func(*machine) // done where it is flushed; may be nil

	// Under h.mu:
	state    map[string]uint64 // command -> index
	dirty    map[string]uint64
	applied  uint64
	term     uint64 // led, 0 while following
	leader   uint64
	restores int
	reads    map[uint64]bool // answered
	failure  error

	// checkpointed is called in the loop before it cuts its log; may be nil
	checkpointed func(*loop)
}

func (m *machine) note(f func()) {
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	f()
	m.h.changed.Broadcast()
}

func (m *machine) Committed(entries []Entry) {
	m.note(func() {
		for _, e := range entries {
			if e.Index != m.applied+1 {
				m.h.problem("%s: entry %d after entry %d", m.name, e.Index, m.applied)
			}
			m.applied = e.Index
			old, ok := m.h.entries[e.Index]
			if ok && (old.Term != e.Term || !bytes.Equal(old.Data, e.Data)) {
				m.h.problem("%s: entry %d is %d %q, elsewhere %d %q", m.name, e.Index, e.Term, e.Data,
					old.Term, old.Data)
			}
			m.h.entries[e.Index] = e
			if len(e.Data) > 0 {
				m.state[string(e.Data)] = e.Index
				m.dirty[string(e.Data)] = e.Index
			}
		}
	})
	last := entries[len(entries)-1].Index
	m.store.Applied(last, len(entries))
	if m.store.Checkpoints.Due() {
		m.checkpoint(last)
	}
}

func (m *machine) checkpoint(index uint64) {
	w := m.store.Checkpoints.Begin(index)
	var rows []Row
	m.note(func() {
		for _, c := range slices.Sorted(maps.Keys(m.dirty)) {
			rows = append(rows, row(c, fmt.Sprint(m.dirty[c])))
		}
		m.dirty = map[string]uint64{}
	})
	if len(rows) > 0 && !w.Put(rows) {
		m.note(func() { m.h.problem("%s: an empty queue is full", m.name) })
	}
	w.Finish()
}

func (m *machine) Restore(index uint64) {
	m.note(func() {
		if index <= m.applied {
			m.h.problem("%s: restored to %d from %d", m.name, index, m.applied)
		}
		m.restores++
		if err := m.load(index); err != nil {
			m.h.problem("%s: %v", m.name, err)
		}
	})
}

func (m *machine) load(index uint64) error {
	m.state, m.dirty, m.applied = map[string]uint64{}, map[string]uint64{}, index
	return m.store.Rows(func(k, v []byte) error {
		var at uint64
		_, err := fmt.Sscan(string(v), &at)
		m.state[string(k)] = at
		return err
	})
}

func (m *machine) Leading(term uint64) { m.note(func() { m.term = term }) }
func (m *machine) Following(term, leader uint64) {
	m.note(func() { m.term, m.leader = 0, leader })
}
func (m *machine) ReadReady(id, index uint64) {
	m.note(func() { m.reads[id] = true })
}
func (m *machine) CheckpointDone(index uint64) {
	m.note(func() {
		if m.checkpointed != nil {
			m.checkpointed(m.store.loop)
		}
	})
}
func (m *machine) Failed(err error) { m.note(func() { m.failure = err }) }

// Flush implements Handler.
func (m *machine) Flush(busy bool) {
	if !busy && m.work != nil {
		m.work(m)
	}
}

func (h *history) problem(format string, args ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// rateClock runs too fast or too slow by a constant rate.
type rateClock struct {
	base time.Time
	rate float64
}

func (c rateClock) now() time.Time {
	return c.base.Add(time.Duration(float64(time.Since(c.base)) * c.rate))
}
func (c rateClock) ticker(d time.Duration) *time.Ticker {
	return time.NewTicker(time.Duration(float64(d) / c.rate))
}

// testCluster runs members in one process over memNet.
type testCluster struct {
	t       *testing.T
	seed    uint64
	net     *memNet
	dir     string
	h       *history
	initial map[string]string
	nodes   map[string]*machine // running
	cfgs    map[string]Config
	names   []string
	onFlush func(*machine) // see machine.work
	tls     *peers.TLS     // not nil: certificates are looked at, see memEnd.certificate
}

func newTestCluster(t *testing.T, members int, seed uint64) *testCluster {
	t.Helper()
	c := preparedTestCluster(t, members, seed)
	c.startAll()
	return c
}

// preparedTestCluster returns a cluster without running servers: configure changes some, startAll starts them.
func preparedTestCluster(t *testing.T, members int, seed uint64) *testCluster {
	t.Helper()
	t.Logf("seed %d", seed)
	c := &testCluster{
		t: t, seed: seed, net: newMemNet(seed), dir: t.TempDir(), h: newHistory(),
		initial: map[string]string{}, nodes: map[string]*machine{}, cfgs: map[string]Config{},
	}
	for i := range members {
		name := string(rune('a' + i))
		c.initial[name] = name + ":1"
		c.names = append(c.names, name)
	}
	t.Cleanup(c.stopAll)
	for _, name := range c.names {
		c.cfgs[name] = c.config(name)
	}
	return c
}

// configure changes with what a server is started from now on.
func (c *testCluster) configure(name string, change func(cfg *Config)) {
	cfg := c.cfgs[name]
	change(&cfg)
	c.cfgs[name] = cfg
}

func (c *testCluster) startAll() {
	c.t.Helper()
	for _, name := range c.names {
		c.start(name)
	}
}

func (c *testCluster) config(name string) Config {
	cfg := smallConfig(filepath.Join(c.dir, name))
	// a checkpoint of all rows has several, one of some has one
	cfg.steps = datadir.StepLimits{Run: 256 << 10, Step: 64 << 10}
	if os.Getenv("RAFT_LOG") != "" {
		cfg.Logger = newTextLogger(os.Stderr).With("member", name)
	}
	cfg.Cluster = Cluster{
		Name: name, Initial: c.initial, Token: "test", Version: 1,
		network: c.net.at(name + ":1"), AdvertisePeer: name + ":1",
		TLS: c.tls,
	}
	return cfg
}

// tryStart opens and starts a member.
func (c *testCluster) tryStart(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := Open(ctx, c.cfgs[name])
	if err != nil {
		return err
	}
	m := &machine{h: c.h, name: name, store: s, reads: map[uint64]bool{}, work: c.onFlush}
	if err := m.load(s.loaded); err != nil {
		return errors.Join(err, s.Stop())
	}
	if err := s.Start(m); err != nil {
		return errors.Join(err, s.Stop())
	}
	c.nodes[name] = m
	return nil
}

func (c *testCluster) start(name string) *machine {
	c.t.Helper()
	if err := c.tryStart(name); err != nil {
		c.t.Fatalf("start %s: %v", name, err)
	}
	return c.nodes[name]
}

// kill stops a member; what others see is a reset of its connections.
func (c *testCluster) kill(name string) {
	c.t.Helper()
	m := c.nodes[name]
	delete(c.nodes, name)
	if err := m.store.Stop(); err != nil {
		c.t.Errorf("stop %s: %v", name, err)
	}
}

func (c *testCluster) stopAll() {
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		c.kill(name)
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	for _, p := range c.h.problems {
		c.t.Errorf("seed %d: %s", c.seed, p)
	}
}

// wait waits for a state of the members; ok is called with the history locked.
func (c *testCluster) wait(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	timer := time.AfterFunc(patience, func() {
		c.h.mu.Lock()
		defer c.h.mu.Unlock()
		c.h.changed.Broadcast()
	})
	defer timer.Stop()
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	for !ok() {
		if time.Now().After(deadline) {
			c.t.Fatalf("seed %d: waited in vain for %s:%s", c.seed, what, c.describe())
		}
		c.h.changed.Wait()
	}
}

func (c *testCluster) describe() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		m := c.nodes[name]
		fmt.Fprintf(&b, "\n%s: applied %d, leads %d, leader %016x, %d commands, failure %v, members %+v",
			name, m.applied, m.term, m.leader, len(m.state), m.failure, m.store.Members())
	}
	return b.String()
}

// leader waits for a leader among the given members, or among all running ones by default.
func (c *testCluster) leader(among ...string) *machine {
	c.t.Helper()
	if len(among) == 0 {
		among = slices.Sorted(maps.Keys(c.nodes))
	}
	var found *machine
	c.wait(fmt.Sprintf("a leader among %v", among), func() bool {
		for _, name := range among {
			if m := c.nodes[name]; m.term != 0 && (found == nil || m.term > found.term) {
				found = m
			}
		}
		return found != nil
	})
	return found
}

// put has a command committed, through whichever of the given members leads.
func (c *testCluster) put(command string, among ...string) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		m := c.leader(among...)
		var term uint64
		m.note(func() { term = m.term })
		if term == 0 {
			continue
		}
		m.store.Propose(term, [][]byte{[]byte(command)})
		done := false
		c.wait("command "+command, func() bool {
			_, done = m.state[command]
			return done || m.term != term
		})
		if done {
			m.note(func() { m.h.acked = append(m.h.acked, command) })
			return
		}
	}
	c.t.Fatalf("seed %d: command %s was never committed", c.seed, command)
}

// settle waits until all running members have applied the same and everything acknowledged.
func (c *testCluster) settle() {
	c.t.Helper()
	c.put(fmt.Sprintf("settle%d", len(c.h.acked)))
	c.wait("all members to agree", func() bool {
		var first *machine
		for _, m := range c.nodes {
			if first == nil {
				first = m
			}
			if m.applied != first.applied || !maps.Equal(m.state, first.state) {
				return false
			}
			for _, command := range c.h.acked {
				if m.state[command] == 0 {
					return false
				}
			}
		}
		return true
	})
}

// load keeps proposing until the function returned is called.
func (c *testCluster) load(prefix string) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	nodes := slices.Collect(maps.Values(c.nodes))
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
			}
			command := fmt.Sprintf("%s%06d", prefix, n)
			for _, m := range nodes {
				m.h.mu.Lock()
				term := m.term
				m.h.mu.Unlock()
				if term != 0 {
					m.store.Propose(term, [][]byte{[]byte(command)})
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// isolate cuts a member off in both directions, or heals it.
func (c *testCluster) isolate(name string, cut bool) {
	for _, other := range c.names {
		if other != name {
			c.net.setCut(name+":1", other+":1", cut)
			c.net.setCut(other+":1", name+":1", cut)
		}
	}
}

// watchLeases looks all the time for two members that may speak at one instant.
func (c *testCluster) watchLeases() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	nodes := slices.Collect(maps.Values(c.nodes))
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
			}
			for i, a := range nodes {
				for _, b := range nodes[i+1:] {
					if a.store.MaySpeak() && b.store.MaySpeak() && a.store.MaySpeak() {
						c.h.mu.Lock()
						c.h.problem("%s and %s both have a lease", a.name, b.name)
						c.h.mu.Unlock()
						return
					}
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// pause takes a member's turn and keeps it, as SIGSTOP would.
func (m *machine) pause() (resume func()) {
	resumed, paused := make(chan struct{}), make(chan struct{})
	m.store.inbox.put(func(mail *mail) {
		mail.tasks = append(mail.tasks, func(*loop) { close(paused); <-resumed })
	})
	<-paused
	return func() { close(resumed) }
}

func others(names []string, not string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == not })
}
