package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/relaypb"
)

// DefaultMarks is how often the servers of a cluster compare their states, if anything has changed.
var DefaultMarks = coordination.MarkPolicy{Commands: 250_000, PeriodMillis: 600_000}

const (
	// markRetry is how long a mark is put off while an older server could not read it.
	markRetry = time.Minute
	// compareTries is how often another server is asked that cannot be reached, and comparePause is between
	// two times. For so long one that has not reported yet is waited for.
	compareTries = 6
	comparePause = 5 * time.Second
	// comparePatience bounds one question.
	comparePatience = 5 * time.Second
	// divergedHandOver is how long a server whose state is wrong tries to hand over the leadership before it
	// ends.
	divergedHandOver = 500 * time.Millisecond
)

var errNoMember = status.Error(codes.PermissionDenied, "This server's cluster has no such member")

// DivergedError says that this server's state is not the one that a majority of the voters shares, so it must
// not go on.
type DivergedError struct {
	// Index is the entry behind which the states were compared.
	Index uint64
	// Own is the digest of this server's state, and Shared that of the majority's.
	Own, Shared uint64
	// Condemnation is why the data directory could not be condemned, nil if it was.
	Condemnation error
}

// reason is what is written into the data directory.
func (e *DivergedError) reason() string {
	const text = "as of entry %d the state of this server had digest %016x, and that of a majority of the servers %016x"
	return fmt.Sprintf(text, e.Index, e.Own, e.Shared)
}

// Error says what was found, and what was done about it.
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

// mark has the leader put a mark into the log if one is due: by what has changed, or because the checkpoint
// of this server is due, with which those of the others are. Servers that cannot read a mark get none. The
// turn is held.
func (g *Group) mark() {
	g.nextMark = coordination.Never
	if g.config.Marks == (coordination.MarkPolicy{}) || g.replica.Reign() == 0 {
		return
	}
	now, due := g.clock.Now(), g.replica.MarkDue()
	if due != coordination.Never && g.checkpoint == nil && g.store.CheckpointDue() {
		due = now
	}
	switch {
	case due > now:
		g.nextMark = due
	case g.FormatVersion() < codec.VersionEntries:
		g.nextMark = now + coordination.Instant(markRetry)
	default:
		g.replica.Mark()
	}
}

// checkpointAtMark freezes the state behind a mark. A server that has another checkpoint under way passes it
// over: it is compared at a later one. The turn is held.
func (g *Group) checkpointAtMark() {
	if g.checkpoint != nil || g.store.CheckpointOpen() {
		g.logger.Debug("passing over a mark: the last checkpoint is not stored yet", "index", g.entry.Index)
		return
	}
	g.reportApplied(uint64(g.entry.Index)) // what comes behind the mark counts towards the next one
	g.beginCheckpoint()
	g.checkpoint.marked = true
}

// awaitsMark reports whether a checkpoint that is due is better taken at the mark that the leader puts into
// the log when its own is due. It does not come if nobody leads, nor before all servers can read it.
func (g *Group) awaitsMark() bool {
	return g.config.Marks != (coordination.MarkPolicy{}) && g.FormatVersion() >= codec.VersionEntries &&
		!g.store.CheckpointOverdue()
}

// reportOf is a report of this server.
func (g *Group) reportOf(index coordination.Index, digest uint64) report {
	version := cmp.Or(g.config.digestVersion, coordination.DigestVersion)
	return report{index: uint64(index), version: version, digest: digest}
}

// digestRestored takes over the digest of the checkpoint that the machine was read from. It was right or
// wrong before already: so what was noticed before a restart is noticed again, even if it had not been
// written down.
func (g *Group) digestRestored() {
	if index, digest := g.replica.Machine().RestoredDigest(); index != 0 {
		g.digests.replaced(g.reportOf(index, digest))
	}
}

// electorate is the members as this server knows them.
func (g *Group) electorate() *electorate {
	e := &electorate{self: g.store.Member()}
	for _, m := range g.store.Members() {
		e.members = append(e.members, m.ID)
		if !m.Learner {
			e.voters = append(e.voters, m.ID)
		}
	}
	return e
}

// startComparing begins to compare this server's state with those of the others.
func (g *Group) startComparing() {
	ctx, cancel := context.WithCancel(context.Background())
	g.comparing.stop = cancel
	g.comparing.ended.Go(func() { g.compareDigests(ctx) })
}

// stopComparing is the counterpart of startComparing, without which it does nothing.
func (g *Group) stopComparing() {
	if g.comparing.stop != nil {
		g.comparing.stop()
		g.comparing.ended.Wait()
	}
}

// compareDigests tells the other servers of this one's digests, hears theirs, and ends this server if it is
// wrong. It runs until then, or until ctx is done.
func (g *Group) compareDigests(ctx context.Context) {
	var last report
	var asked map[uint64]bool
	var pause <-chan time.Time // the next try is behind it
	tries := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.digests.bell:
		case <-pause:
			pause = nil
			if tries == compareTries {
				g.digests.giveUp(last.index)
			}
		}
		if now, known := g.digests.newest(); known && now != last {
			last, asked, pause, tries = now, make(map[uint64]bool), nil, 0
		}
		if last.index != 0 && pause == nil && tries < compareTries {
			tries++
			g.askOthers(ctx, last, asked)
			pause = time.After(cmp.Or(g.config.comparePause, comparePause))
		}
		if err := g.judge(); err != nil {
			g.endDiverged(ctx, err)
			return
		}
	}
}

// askOthers tells a report to the members that are not among asked, and hears theirs.
func (g *Group) askOthers(ctx context.Context, own report, asked map[uint64]bool) {
	ctx, cancel := context.WithTimeout(ctx, comparePatience)
	defer cancel()
	var mutex sync.Mutex
	var calls sync.WaitGroup
	others := slices.DeleteFunc(g.store.Members(), func(m raftstore.Member) bool {
		return m.ID == g.store.Member() || m.PeerAddress == "" || asked[m.ID]
	})
	for _, m := range others {
		calls.Go(func() {
			err := g.exchangeDigests(ctx, m, own)
			// an older server has nothing to say
			if status.Code(err) != codes.OK && status.Code(err) != codes.Unimplemented {
				g.logger.Debug("could not compare digests", "server", m.Name, "err", err)
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			asked[m.ID] = true
		})
	}
	calls.Wait()
}

func (g *Group) exchangeDigests(ctx context.Context, m raftstore.Member, own report) error {
	conn, err := g.store.DialPeer(m.PeerAddress)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := relaypb.NewDigestsClient(conn).Compare(ctx, reportToPB(g.store.Member(), own))
	switch {
	case err != nil:
		return err
	case answer.GetServer() != m.ID:
		return errNoMember
	case answer.GetIndex() == own.index:
		g.digests.heard(m.ID, reportFromPB(answer), g.electorate().members)
	}
	return nil
}

func reportToPB(server uint64, r report) *relaypb.DigestReport {
	return &relaypb.DigestReport{Server: server, Index: r.index, HashVersion: r.version, Digest: r.digest}
}

func reportFromPB(p *relaypb.DigestReport) report {
	return report{index: p.GetIndex(), version: p.GetHashVersion(), digest: p.GetDigest()}
}

// digestService answers the other servers.
type digestService struct {
	relaypb.UnimplementedDigestsServer
	group *Group
}

// Compare implements relaypb.DigestsServer. Only the member itself may tell its digest.
func (s digestService) Compare(ctx context.Context, r *relaypb.DigestReport) (*relaypb.DigestReport, error) {
	g, from := s.group, r.GetServer()
	members := g.electorate().members
	if from == g.store.Member() || !slices.Contains(members, from) {
		return nil, errNoMember
	}
	if err := g.store.Identify(ctx, from); err != nil {
		return nil, err
	}
	own, _ := g.digests.at(r.GetIndex())
	g.digests.heard(from, reportFromPB(r), members)
	return reportToPB(g.store.Member(), own), nil
}

// judge tells of what the comparison of the digests shows, and returns why this server has to end, if it has.
func (g *Group) judge() *DivergedError {
	found := g.digests.findings(g.electorate())
	for _, f := range found {
		if f.verdict == outvoted {
			return &DivergedError{Index: f.report.index, Own: f.report.digest, Shared: f.majority}
		}
	}
	now := present(found)
	if now.verdict == g.comparing.last.verdict && now.report.index == g.comparing.last.report.index {
		return nil
	}
	g.comparing.last = now
	switch now.verdict {
	case split:
		g.logger.Error("this server has diverged from others, and no majority of the voters has one state, "+
			"so nobody knows who is right", "as of entry", now.report.index, "others",
			g.store.Members().NamesOf(now.differing))
	case shared:
		g.logger.Error("other servers have diverged from the majority, which has the state of this one",
			"as of entry", now.report.index, "diverged", g.store.Members().NamesOf(now.differing))
	}
	return nil
}

// endDiverged ends this server, whose state is wrong: first in a way that a restart does not undo, and then
// so that the cluster has another leader at once.
func (g *Group) endDiverged(ctx context.Context, err *DivergedError) {
	g.logger.Error("this server has diverged from the majority and ends", "as of entry", err.Index,
		"digest", fmt.Sprintf("%016x", err.Own), "of the majority", fmt.Sprintf("%016x", err.Shared))
	if g.config.noticed != nil {
		g.config.noticed()
	}
	err.Condemnation = g.store.Condemn(err.reason())
	bounded, cancel := context.WithTimeout(ctx, divergedHandOver)
	g.HandOver(bounded)
	cancel()
	g.turn.Lock()
	over := g.closed
	g.close()
	g.turn.Unlock()
	if !over {
		g.failed(err)
	}
}

// Divergence is what a server knows of servers with different states.
type Divergence struct {
	// Index is the entry behind which the states were compared.
	Index uint64
	// Others are the members that have another state than this server.
	Others []uint64
	// Right tells that a majority of the voters shares this server's state. If not, nobody knows who is
	// right.
	Right bool
}

// Divergence reports whether there are members whose state differs from this server's. One that has yet to
// report may show who of them is right; until then they are not told of.
func (g *Group) Divergence() (d Divergence, found bool) {
	if g.alone() {
		return d, false
	}
	f := present(g.digests.findings(g.electorate()))
	switch f.verdict {
	case shared, outvoted, split:
		return Divergence{Index: f.report.index, Others: f.differing, Right: f.verdict == shared}, true
	}
	return d, false
}
