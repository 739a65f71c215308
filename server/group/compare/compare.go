// Package compare compares the states of a cluster's servers by digests, and ends a server whose state is not the one
// that a majority of the voters has.
package compare

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/group/relaypb"
)

const (
	// compareTries bounds the questions to a server that cannot be reached, and comparePause is the time between two.
	// That is also the time for which a report that has not come yet is waited for.
	compareTries = 6
	comparePause = 5 * time.Second
	// comparePatience bounds one question.
	comparePatience = 5 * time.Second
	// divergedHandOver bounds the attempt of a server whose state is wrong to hand over the leadership before it ends.
	divergedHandOver = 500 * time.Millisecond
)

// DivergedError ends a server whose state is not the one that a majority of the voters shares.
type DivergedError struct {
	// Index is the entry behind which the states were compared.
	Index uint64
	// Own is the digest of this server's state, and Shared that of the majority's.
	Own, Shared uint64
	// Condemnation is why the data directory could not be condemned, nil if it was.
	Condemnation error
}

// reason returns the text for the data directory.
func (e *DivergedError) reason() string {
	const text = "as of entry %d the state of this server had digest %016x, and that of a majority of the servers %016x"
	return fmt.Sprintf(text, e.Index, e.Own, e.Shared)
}

// Error returns the reason, and whether the data directory is condemned.
func (e *DivergedError) Error() string {
	text := "this server has diverged: " + e.reason()
	if e.Condemnation != nil {
		return fmt.Sprintf(
			"%s; that could not be written into the data directory, which must not be used any more: %v",
			text, e.Condemnation)
	}
	return text
}

// Unwrap is Condemnation.
func (e *DivergedError) Unwrap() error { return e.Condemnation }

// electorate returns the members as this server knows them.
func (c *Comparer) electorate() *electorate {
	e := &electorate{self: c.core.Store().Member()}
	for _, m := range c.core.Store().Members() {
		e.members = append(e.members, m.ID)
		if !m.Learner {
			e.voters = append(e.voters, m.ID)
		}
	}
	return e
}

// Core is the group as the comparison uses it.
type Core interface {
	// Store returns the log, with the members.
	Store() *raftstore.Store
	// HandOver gives the leadership to another member, if this one has it.
	HandOver(ctx context.Context)
	// Diverged ends the server.
	Diverged(err *DivergedError)
}

// Config configures a Comparer. Its fields are for tests.
type Config struct {
	// Version is that of the digests, if it is not this program's.
	Version uint32
	// Noticed is called when this server has noticed that it diverged, before that is written down.
	Noticed func()
	// Pause is the time between two attempts, if it is not comparePause.
	Pause time.Duration
}

// Comparer compares the state of this server with those of the others.
type Comparer struct {
	core    Core
	logger  *slog.Logger
	config  Config
	digests *digests
	stop    context.CancelFunc
	ended   sync.WaitGroup
	last    finding // the one that was logged last
}

// New makes a Comparer that knows of no digest.
func New(core Core, logger *slog.Logger, config Config) *Comparer {
	config.Version = cmp.Or(config.Version, coordination.DigestVersion)
	config.Pause = cmp.Or(config.Pause, comparePause)
	return &Comparer{core: core, logger: logger, config: config, digests: newDigests()}
}

// Start begins to compare.
func (c *Comparer) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.ended.Go(func() { c.compareDigests(ctx) })
}

// Stop is the counterpart of Start, without which it does nothing.
func (c *Comparer) Stop() {
	if c.stop != nil {
		c.stop()
		c.ended.Wait()
	}
}

// Add adds a digest of this server's state.
func (c *Comparer) Add(index, digest uint64) {
	c.digests.addOwn(report{index, c.config.Version, digest})
}

// Replace adds the first digest of a state that has taken the place of this server's.
func (c *Comparer) Replace(index, digest uint64) {
	c.digests.replaced(report{index, c.config.Version, digest})
}

// Newest returns the index of this server's newest digest.
func (c *Comparer) Newest() (index uint64, known bool) {
	r, known := c.digests.newest()
	return r.index, known
}

// Has reports whether this server has a digest of an index.
func (c *Comparer) Has(index uint64) bool {
	_, known := c.digests.at(index)
	return known
}

// Heard returns the indexes of the digests that each other member has sent.
func (c *Comparer) Heard() map[uint64][]uint64 { return c.digests.heardOf() }

// compareDigests exchanges digests with the other servers, and ends this server if it is wrong. It runs until then, or
// until ctx is done.
func (c *Comparer) compareDigests(ctx context.Context) {
	var last report
	var asked map[uint64]bool
	var pause <-chan time.Time // before the next try
	tries := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.digests.bell:
		case <-pause:
			pause = nil
			if tries == compareTries {
				c.digests.giveUp(last.index)
			}
		}
		if now, known := c.digests.newest(); known && now != last {
			last, asked, pause, tries = now, make(map[uint64]bool), nil, 0
		}
		if last.index != 0 && pause == nil && tries < compareTries {
			tries++
			c.askOthers(ctx, last, asked)
			pause = time.After(c.config.Pause)
		}
		if err := c.judge(); err != nil {
			c.endDiverged(ctx, err)
			return
		}
	}
}

// askOthers exchanges reports with the members that are not among asked, and adds those that answer.
func (c *Comparer) askOthers(ctx context.Context, own report, asked map[uint64]bool) {
	ctx, cancel := context.WithTimeout(ctx, comparePatience)
	defer cancel()
	var mutex sync.Mutex
	var calls sync.WaitGroup
	others := slices.DeleteFunc(c.core.Store().Members(), func(m raftstore.Member) bool {
		return m.ID == c.core.Store().Member() || m.PeerAddress == "" || asked[m.ID]
	})
	for _, m := range others {
		calls.Go(func() {
			err := c.exchangeDigests(ctx, m, own)
			if err != nil {
				c.logger.Debug("could not compare digests", "server", m.Name, "err", err)
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			asked[m.ID] = true
		})
	}
	calls.Wait()
}

func (c *Comparer) exchangeDigests(ctx context.Context, m raftstore.Member, own report) error {
	answer := &relaypb.DigestReport{}
	err := peers.Ask(ctx, c.core.Store().Peers.Conn(m.ID, false), reportToPB(own), answer)
	if err == nil && answer.GetIndex() == own.index {
		c.digests.heard(m.ID, reportFromPB(answer), c.electorate().members)
	}
	return err
}

func reportToPB(r report) *relaypb.DigestReport {
	return &relaypb.DigestReport{Index: r.index, HashVersion: r.version, Digest: r.digest}
}

func reportFromPB(p *relaypb.DigestReport) report {
	return report{index: p.GetIndex(), version: p.GetHashVersion(), digest: p.GetDigest()}
}

// Compare answers another member's digest with this server's as of the same index.
func (c *Comparer) Compare(ctx context.Context, r *relaypb.DigestReport) (*relaypb.DigestReport, error) {
	own, _ := c.digests.at(r.GetIndex())
	c.digests.heard(peers.Caller(ctx), reportFromPB(r), c.electorate().members)
	return reportToPB(own), nil
}

// judge logs the result of the comparison if it has changed, and returns an error if this server has to end.
func (c *Comparer) judge() *DivergedError {
	found := c.digests.findings(c.electorate())
	for _, f := range found {
		if f.verdict == outvoted {
			return &DivergedError{Index: f.report.index, Own: f.report.digest, Shared: f.majority}
		}
	}
	now := present(found)
	if now.verdict == c.last.verdict && now.report.index == c.last.report.index {
		return nil
	}
	c.last = now
	switch now.verdict {
	case split:
		c.logger.Error("this server has diverged from others, and no majority of the voters has one state, "+
			"so nobody knows who is right", "as of entry", now.report.index, "others",
			c.core.Store().Members().NamesOf(now.differing))
	case agreed:
		c.logger.Error("other servers have diverged from the majority, which has the state of this one",
			"as of entry", now.report.index, "diverged", c.core.Store().Members().NamesOf(now.differing))
	}
	return nil
}

// endDiverged ends this server, whose state is wrong. It condemns the data directory, so that a restart does not undo
// that, and hands over the leadership.
func (c *Comparer) endDiverged(ctx context.Context, err *DivergedError) {
	c.logger.Error("this server has diverged from the majority and ends", "as of entry", err.Index,
		"digest", fmt.Sprintf("%016x", err.Own), "of the majority", fmt.Sprintf("%016x", err.Shared))
	if c.config.Noticed != nil {
		c.config.Noticed()
	}
	err.Condemnation = c.core.Store().Condemn(err.reason())
	bounded, cancel := context.WithTimeout(ctx, divergedHandOver)
	c.core.HandOver(bounded)
	cancel()
	c.core.Diverged(err)
}

// Divergence names servers with different states.
type Divergence struct {
	// Index is the entry behind which the states were compared.
	Index uint64
	// Others are the members that have another state than this server.
	Others []uint64
	// Right reports whether a majority of the voters shares this server's state. If not, it is unknown which state is
	// right.
	Right bool
}

// Divergence reports whether there are members whose state differs from this server's. As long as a missing report may
// decide which of them is right, it returns false.
func (c *Comparer) Divergence() (d Divergence, found bool) {
	f := present(c.digests.findings(c.electorate()))
	switch f.verdict {
	case agreed, outvoted, split:
		return Divergence{Index: f.report.index, Others: f.differing, Right: f.verdict == agreed}, true
	}
	return d, false
}
