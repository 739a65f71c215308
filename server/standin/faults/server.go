package faults

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/hooks"
)

// Server is where the faults of a Set meet one server. It implements hooks.Faults.
type Server struct {
	set    *Set
	number int
}

// Server is a server of the stand-in, from 1. One that is started again is the same one.
func (s *Set) Server(number int) *Server { return &Server{s, number} }

// Serve implements hooks.Faults.
func (s *Server) Serve(c hooks.Control) {
	s.set.mutex.Lock()
	defer s.set.mutex.Unlock()
	if s.set.controls == nil {
		s.set.controls = make(map[int]hooks.Control)
	}
	s.set.controls[s.number] = c
}

var errNoServer = errors.New("no server has been started with these faults")

// control is a server that pick likes, or else the error.
func (s *Set) control(pick func(hooks.Control) bool, none error) (hooks.Control, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for number := 1; len(s.controls) > 0 && number <= maxServers; number++ {
		if c := s.controls[number]; c != nil && pick(c) {
			return c, nil
		}
	}
	return nil, none
}

func (s *Set) alone() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.controls) < 2
}

// maxServers bounds the numbers of servers.
const maxServers = 64

func anyServer(hooks.Control) bool { return true }

// ExpireSession ends a session as if its time had run out, be it attached or not. Its stream ends with
// Failure SESSION_EXPIRED "Session has expired", and what it had goes to those who wait. It returns when that
// is so. Without such a session the error is ErrMissed.
func (s *Set) ExpireSession(ctx context.Context, node string, session uint64) error {
	c, err := s.control(anyServer, errNoServer)
	if err != nil {
		return err
	}
	return c.ExpireSession(ctx, s.Path(node), session)
}

// DropNode drops a coordination node as somebody else would: streams end with Failure UNAVAILABLE "Link
// failure", and starts are refused with NOT_FOUND. Without such a node the error is ErrMissed.
func (s *Set) DropNode(ctx context.Context, node string) error {
	c, err := s.control(anyServer, errNoServer)
	if err != nil {
		return err
	}
	return c.DropNode(ctx, s.Path(node))
}

// LoseLeader has the leader lead no more. Of several servers it is another one that leads then; for a leader, and for
// another one that can lead, it waits 10 s at most. A server alone pauses for d of the stand-in's clock:
// requests wait meanwhile, streams that wait longer than the node's grace period end with gRPC status UNAVAILABLE and
// without a Failure, which would be a sign of life, and sessions and waits have their full time again behind that.
// Streams survive a shorter pause.
func (s *Set) LoseLeader(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return errors.New("for how long: want more than 0")
	}
	ctx, cancel := context.WithTimeout(ctx, heirPatience)
	defer cancel()
	for {
		c, err := s.control(hooks.Control.Leads, errors.New("no server leads"))
		if err == nil {
			err = c.LoseLeader(ctx, d)
		}
		if err == nil || s.alone() || ctx.Err() != nil {
			return err
		}
		time.Sleep(heirPatience / 1000) // in a moment one leads, and another one can
	}
}

const heirPatience = 10 * time.Second

// plenty is the free space of a disk that is not full, in bytes.
const plenty = 1 << 50

// disks is the state of the servers' disks.
type disks struct {
	there map[int]bool
	full  map[int]bool
	slow  map[int]time.Duration
}

// FreeSpace implements raftstore.Config.FreeSpace.
func (s *Server) FreeSpace(string) (uint64, error) {
	s.set.mutex.Lock()
	defer s.set.mutex.Unlock()
	if s.set.disks.full[s.number] {
		return 0, nil
	}
	return plenty, nil
}

// Slow implements raftstore.Config.Slow: it takes as long as the server's disk does.
func (s *Server) Slow(string) {
	s.set.mutex.Lock()
	pause := s.set.disks.slow[s.number]
	s.set.mutex.Unlock()
	if pause > 0 {
		time.Sleep(pause)
	}
}

// Disk registers that a server has a disk, which FreeSpace and Slow describe.
func (s *Set) Disk(server int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.disks.there = put(s.disks.there, server, true)
}

var errNoDisk = errors.New(
	"there is no disk: everything is in memory; a Go test gives the stand-in Dir or Servers")

// hasDisk returns an error unless a server runs, and on a disk. The mutex is held.
func (s *Set) hasDisk(server int) error {
	switch {
	case s.controls[server] == nil:
		return errNoServer
	case !s.disks.there[server]:
		return errNoDisk
	}
	return nil
}

// FullDisk has a server's disk be nearly full, or not: whatever would make the state larger is refused,
// streams that ask for it end with Failure UNAVAILABLE, and a server of several hands its leadership over.
func (s *Set) FullDisk(server int, full bool) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.hasDisk(server); err != nil {
		return err
	}
	s.disks.full = put(s.disks.full, server, full)
	return nil
}

// SlowDisk has each write and each sync of a server's disk take d longer, of real time; 0: none. Answers wait
// for it.
func (s *Set) SlowDisk(server int, d time.Duration) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.hasDisk(server); err != nil {
		return err
	}
	s.disks.slow = put(s.disks.slow, server, d)
	return nil
}

func (s *Set) addServers(c *Controls) {
	c.Add("expire-session", "node= session=: end a session as if its time had run out",
		func(ctx context.Context, a *Arguments) (any, error) {
			node, session := a.Text("node"), a.Number("session", 0)
			return a.Then(func() (any, error) { return nil, s.ExpireSession(ctx, node, session) })
		})
	c.Add("drop-node", "node=: drop a coordination node",
		func(ctx context.Context, a *Arguments) (any, error) {
			node := a.Text("node")
			return a.Then(func() (any, error) { return nil, s.DropNode(ctx, node) })
		})
	c.Add("full-disk", "[server=1] [full=true]: a disk is nearly full, or has space again",
		func(_ context.Context, a *Arguments) (any, error) {
			server, full := a.Count("server", 1), a.Switch("full", true)
			return a.Then(func() (any, error) { return nil, s.FullDisk(server, full) })
		})
	c.Add("slow-disk", "[server=1] d=100ms: each write to a disk takes longer",
		func(_ context.Context, a *Arguments) (any, error) {
			server, d := a.Count("server", 1), a.Duration("d")
			return a.Then(func() (any, error) { return nil, s.SlowDisk(server, d) })
		})
	c.Add("partition", "a= b=: nothing passes between two servers, until heal",
		func(_ context.Context, a *Arguments) (any, error) {
			i, j := a.Count("a", 0), a.Count("b", 0)
			return a.Then(func() (any, error) { return nil, s.Partition(i, j) })
		})
	c.Add("heal", "take every partition back", plain(func() any { s.Heal(); return nil }))
	c.Add("lose-leader", "d=1s: the leader leads no more; a server alone pauses for d",
		func(ctx context.Context, a *Arguments) (any, error) {
			d := a.Duration("d")
			return a.Then(func() (any, error) { return nil, s.LoseLeader(ctx, d) })
		})
}
