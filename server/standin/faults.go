package standin

import (
	"context"
	"strings"
	"time"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/standin/faults"
)

// faultPatience limits the time for a fault that needs the leader.
const faultPatience = time.Minute

// diskReserve is below which free space a stand-in's disk counts as nearly full, in bytes.
const diskReserve = 1 << 20

// timer is AfterFunc on the clock of the stand-in, nil for the real one.
func (c *core) timer() func(d time.Duration, do func()) (stop func() bool) {
	if c.clock == nil {
		return nil
	}
	return func(d time.Duration, do func()) func() bool { return c.clock.AfterFunc(d, do).Stop }
}

// makeFaulty has a server meet the faults.
func (c *core) makeFaulty(m *member, number int) {
	f := c.faults.Server(number)
	m.hooks.Faults = f
	if m.config.DataDir != "" {
		c.faults.Disk(number)
		m.config.DiskReserve = diskReserve
		m.hooks.Log = func(log *raftstore.Config) { log.FreeSpace, log.Slow = f.FreeSpace, f.Slow }
	}
	if m.peer != nil {
		m.config.Cluster.Dial = c.faults.DialPeer(number)
	}
}

// Faults is the stand-in's set of faults. The methods below use it and fail the test on an error; it offers more than
// they do.
func (s *Server) Faults() *faults.Set { return s.faults }

// must fails the test if a fault was refused.
func (s *Server) must(what string, err error) {
	s.helper()()
	if err != nil {
		s.fail("%s: %v", what, err)
	}
}

// FailNext is faults.Set.FailNext. It returns which SDKs do not get over that, or overlook it.
func (s *Server) FailNext(kind faults.Kind, n int, status faults.Status, text string,
	more ...faults.Option) (troubled string) {
	s.helper()()
	troubled, err := s.faults.FailNext(kind, n, status, text, more...)
	s.must("FailNext", err)
	return troubled
}

// FailSome is faults.Set.FailSome.
func (s *Server) FailSome(kind faults.Kind, p float64, seed uint64, more ...faults.Option) (troubled string) {
	s.helper()()
	troubled, err := s.faults.FailSome(kind, p, seed, more...)
	s.must("FailSome", err)
	return troubled
}

// DelayNext is faults.Set.DelayNext. With FakeTime it is Advance that ends the delay.
func (s *Server) DelayNext(kind faults.Kind, n int, d time.Duration, more ...faults.Option) {
	s.helper()()
	s.must("DelayNext", s.faults.DelayNext(kind, n, d, more...))
}

// AnswerLost is faults.Set.AnswerLost.
func (s *Server) AnswerLost(kind faults.Kind, n int, more ...faults.Option) {
	s.helper()()
	s.must("AnswerLost", s.faults.AnswerLost(kind, n, more...))
}

// RepeatNext is faults.Set.RepeatNext.
func (s *Server) RepeatNext(kind faults.Kind, n int, more ...faults.Option) {
	s.helper()()
	s.must("RepeatNext", s.faults.RepeatNext(kind, n, more...))
}

// DropStreams is faults.Set.DropStreams: it fails the test if there is no such stream.
func (s *Server) DropStreams(f faults.Filter, how faults.Drop, more ...faults.Option) (dropped int) {
	s.helper()()
	dropped, err := s.faults.DropStreams(f, how, more...)
	s.must("DropStreams", err)
	return dropped
}

// SpuriousNotice is faults.Set.SpuriousNotice: it fails the test if there is no such watch.
func (s *Server) SpuriousNotice(f faults.Filter, semaphore string, more ...faults.Option) (noticed int) {
	s.helper()()
	noticed, err := s.faults.SpuriousNotice(f, semaphore, more...)
	s.must("SpuriousNotice", err)
	return noticed
}

// DetachSession is faults.Set.DetachSession. It fails the test if the session has no stream.
func (s *Server) DetachSession(node string, session uint64, more ...faults.Option) {
	s.helper()()
	s.must("DetachSession", s.faults.DetachSession(node, session, more...))
}

// ExpireSession is faults.Set.ExpireSession.
func (s *Server) ExpireSession(node string, session uint64) {
	s.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), faultPatience)
	defer cancel()
	s.must("ExpireSession", s.faults.ExpireSession(ctx, node, session))
}

// DropNode is faults.Set.DropNode.
func (s *Server) DropNode(node string) {
	s.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), faultPatience)
	defer cancel()
	s.must("DropNode", s.faults.DropNode(ctx, node))
}

// LoseLeader is faults.Set.LoseLeader.
func (s *Server) LoseLeader(d time.Duration) {
	s.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), faultPatience)
	defer cancel()
	s.must("LoseLeader", s.faults.LoseLeader(ctx, d))
}

// Partition is faults.Set.Partition, and Heal takes it back.
func (s *Server) Partition(i, j int) {
	s.helper()()
	s.must("Partition", s.faults.Partition(i, j))
}

// Heal is faults.Set.Heal.
func (s *Server) Heal() { s.faults.Heal() }

// FullDisk is faults.Set.FullDisk. It needs Dir or Servers: nothing else has a disk.
func (s *Server) FullDisk(server int, full bool) {
	s.helper()()
	s.must("FullDisk", s.faults.FullDisk(server, full))
}

// SlowDisk is faults.Set.SlowDisk. It needs Dir or Servers.
func (s *Server) SlowDisk(server int, d time.Duration) {
	s.helper()()
	s.must("SlowDisk", s.faults.SlowDisk(server, d))
}

// Requests are faults.Set.Requests: what the code under test has asked for.
func (s *Server) Requests() []faults.Request { return s.faults.Requests() }

// OnRequest is faults.Set.OnRequest.
func (s *Server) OnRequest(do func(faults.Request) faults.Action) { s.faults.OnRequest(do) }

// Reset is faults.Set.Reset: it fails the test if a rule has met no request. So does the end of the stand-in.
func (s *Server) Reset() {
	s.helper()()
	s.missed(s.faults.Reset())
}

// missed fails the test if there were faults that met nothing.
func (s *Server) missed(faults []string) {
	s.helper()()
	if len(faults) > 0 {
		s.fail("faults that never happened (faults.MayMiss allows it):\n  %s", strings.Join(faults, "\n  "))
	}
}
