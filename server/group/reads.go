package group

import (
	"cmp"
	"context"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/streams"
)

// maxReadRows bounds the rows of the machine that the reads of one turn visit, so that no request waits for a long
// listing. A read that needs more comes back for the rest.
const maxReadRows = 1_000

// Read runs fn in a turn, on the state that this server has applied. fn must be quick and must not keep the machine.
// When Read returns, fn has returned, or will never run.
func (g *Group) Read(ctx context.Context, fn func(*coordination.Machine) outcome.Outcome) (outcome.Outcome, error) {
	return g.readCore(ctx, func(c *core) outcome.Outcome { return fn(c.replica.Machine()) })
}

// readCore is Read of the whole core.
func (g *Group) readCore(ctx context.Context, fn func(*core) outcome.Outcome) (outcome.Outcome, error) {
	return g.await(ctx, &call{read: fn, rows: 1, done: make(chan callAnswer, 1)})
}

// capture returns the result of look, which runs in a turn. look visits at most the given number of rows, up to
// maxReadRows, and keeps only references to immutable data: its result is processed outside the turn.
func capture[T any](ctx context.Context, g *Group, rows int, look func(*coordination.Machine) T) (T, error) {
	return captureCore(ctx, g, rows, func(c *core) T { return look(c.replica.Machine()) })
}

// captureCore is capture from the whole core.
func captureCore[T any](ctx context.Context, g *Group, rows int, look func(*core) T) (T, error) {
	found := make(chan T, 1)
	c := &call{rows: rows, done: make(chan callAnswer, 1),
		read: func(c *core) outcome.Outcome {
			found <- look(c)
			return outcome.Done()
		}}
	if _, err := g.await(ctx, c); err != nil {
		var nothing T
		return nothing, err
	}
	return <-found, nil
}

// Progress reports whether a turn of a group comes to an end before ctx does.
func Progress(ctx context.Context, g *Group) bool {
	_, err := capture(ctx, g, 0, func(*coordination.Machine) struct{} { return struct{}{} })
	return err == nil
}

// lineageRows bounds the rows that a path's description visits, besides its children.
var lineageRows = scheme.DefaultLimits().Depth + 1

// Described has the parts of a path's description, captured in one turn.
type Described struct {
	// Lineage has the path and all above it.
	Lineage scheme.Lineage
	// Config is set for a coordination node that is described as one.
	Config coordination.NodeConfig
	// Children is set for a directory that is listed.
	Children []scheme.Entry
	// Outcome is the outcome of the search for the path, as far as the caller may know it.
	Outcome outcome.Outcome
}

// Describe returns the result of look for a path once this server is up to date.
func (g *Group) Describe(ctx context.Context, caller coordination.Caller, path scheme.Path,
	look func(*coordination.Machine) Described) (Described, outcome.Outcome, error) {
	if err := g.CatchUp(ctx); err != nil {
		return Described{}, outcome.Outcome{}, err
	}
	return g.glance(ctx, caller, path, lineageRows, look)
}

// glance returns the result of look for a path, unless the caller may not describe it.
func (g *Group) glance(ctx context.Context, caller coordination.Caller, path scheme.Path, rows int,
	look func(*coordination.Machine) Described) (Described, outcome.Outcome, error) {
	type captured struct {
		Described
		subject scheme.Subject
	}
	c, err := capture(ctx, g, rows, func(m *coordination.Machine) captured {
		return captured{look(m), m.Subject(caller)}
	})
	if err != nil {
		return Described{}, outcome.Outcome{}, err
	}
	if refused := c.Lineage.Authorize(path, scheme.DescribeSchema, c.subject); !refused.OK() {
		return Described{}, refused, nil
	}
	return c.Described, c.Outcome, nil
}

// List captures a directory and what is in it, a page at a time. Each page is as of its own turn: the whole
// is no snapshot. If the directory gives way to another one meanwhile, the listing begins anew.
func (g *Group) List(ctx context.Context, caller coordination.Caller,
	path scheme.Path) (Described, outcome.Outcome, error) {
	if err := g.CatchUp(ctx); err != nil {
		return Described{}, outcome.Outcome{}, err
	}
	pageRows := maxReadRows - lineageRows
	var list Described
	for {
		after := ""
		if n := len(list.Children); n > 0 {
			after = list.Children[n-1].Name
		}
		page, answer, err := g.glance(ctx, caller, path, maxReadRows,
			func(m *coordination.Machine) (d Described) {
				d.Lineage, d.Outcome = m.Tree().EntryToDescribe(path)
				d.Children = m.Tree().ChildrenAfter(path, after, pageRows)
				return d
			})
		switch {
		case err != nil || !answer.OK():
			return Described{}, answer, err
		case list.Lineage != nil && list.Lineage[0].ID != page.Lineage[0].ID:
			list = Described{}
			continue
		}
		full := len(page.Children) == pageRows
		page.Children = append(list.Children, page.Children...)
		if list = page; !full {
			return list, answer, nil
		}
	}
}

// CatchUp returns once this server has applied everything that was committed when it was called. A server without
// peers that leads has done so. Errors: ErrStopped, that of ctx, which is ErrNoLeader as well without a leader.
func (g *Group) CatchUp(ctx context.Context) error {
	if g.alone() && g.Leads() {
		return nil
	}
	err := g.passBarrier(ctx)
	if err != nil && ctx.Err() != nil && !g.Led() {
		return &unasked{err, ErrNoLeader}
	}
	return err
}

// maxListedBytes bounds the paths of a listing: SDKs refuse to receive messages over 64,000,000 bytes.
const maxListedBytes = coordination.MaxDescribedBytes

// DescribeResource returns a resource's own properties once this server is up to date.
func (g *Group) DescribeResource(ctx context.Context, caller coordination.Caller, path scheme.Path,
	resource string) (coordination.ResourceProperties, outcome.Outcome, error) {
	if err := g.CatchUp(ctx); err != nil {
		return coordination.ResourceProperties{}, outcome.Outcome{}, err
	}
	type described struct {
		properties coordination.ResourceProperties
		answer     outcome.Outcome
	}
	d, err := capture(ctx, g, lineageRows, func(m *coordination.Machine) (d described) {
		d.properties, d.answer = m.Resources().Describe(caller, path, resource)
		return d
	})
	return d.properties, d.answer, err
}

// ListResources lists resources, a page at a time, in no particular order. Each page is as of its own turn:
// the whole is no snapshot. If the node gives way to another one meanwhile, the listing begins anew.
func (g *Group) ListResources(ctx context.Context, caller coordination.Caller,
	listing coordination.ResourceListing) ([]string, outcome.Outcome, error) {
	if err := g.CatchUp(ctx); err != nil {
		return nil, outcome.Outcome{}, err
	}
	type captured struct {
		coordination.ResourcePage
		answer outcome.Outcome
	}
	var list captured
	bytes := 0
	for {
		page, err := capture(ctx, g, maxReadRows, func(m *coordination.Machine) (c captured) {
			c.ResourcePage, c.answer = m.Resources().List(caller, listing, list.Next, maxReadRows-lineageRows)
			return c
		})
		switch {
		case err != nil || !page.answer.OK():
			return nil, page.answer, err
		case list.Node != 0 && list.Node != page.Node:
			list, bytes = captured{}, 0
			continue
		}
		for _, path := range page.Paths {
			bytes += len(path) + 4 // with what is before it in the message
		}
		if bytes > cmp.Or(g.config.listedBytes, maxListedBytes) {
			r := coordination.ResourcesTooLarge
			return nil, outcome.Because(r.Status, r.Text), nil
		}
		page.Paths = append(list.Paths, page.Paths...)
		if list = page; list.Next == 0 {
			return list.Paths, list.answer, nil
		}
	}
}

// readIndex puts a read question to the leader, through the log. It ignores 0, which the methods of readRounds return
// when no question is to be put.
func (g *shared) readIndex(question uint64) {
	if question != 0 {
		g.store.ReadIndex(question)
	}
}

// passBarrier returns when this server has applied everything that was committed when it was called. It asks again at
// once when there may be another leader: the question is lost with the one that had it.
func (g *Group) passBarrier(ctx context.Context) error {
	changed := g.uplink.AwaitNews()
	round, ask := g.rounds.join()
	g.readIndex(ask)
	retry := time.NewTimer(barrierRetry)
	defer retry.Stop()
	for {
		asked := g.rounds.asked(round)
		select {
		case <-round.passed:
			return nil
		case <-changed:
			changed = g.uplink.AwaitNews()
			g.readIndex(g.rounds.again(round, asked))
		case <-retry.C:
			g.readIndex(g.rounds.again(round, asked))
		case <-ctx.Done():
			g.readIndex(g.rounds.drop(round))
			return ctx.Err()
		case <-g.over:
			return streams.ErrStopped
		}
		retry.Reset(barrierRetry)
	}
}
