package server

import (
	"context"
	"errors"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// maxReadRows is how many rows of the machine the reads of one turn look at, so that nobody waits for somebody else's long
// listing. A read that needs more comes back for the rest.
const maxReadRows = 1_000

// read runs fn in a turn. fn must be quick and must not keep what it is given.
func (g *group) read(ctx context.Context, fn func(*coordination.Machine) outcome.Outcome) (outcome.Outcome, error) {
	return g.await(ctx, &call{read: fn, rows: 1, done: make(chan callAnswer, 1)})
}

// capture returns what look finds in the machine within one turn. look may look at rows rows at most, maxReadRows or
// fewer, and takes no more than references to what never changes: what it finds is worked up outside the turn.
func capture[T any](ctx context.Context, g *group, rows int, look func(*coordination.Machine) T) (T, error) {
	found := make(chan T, 1)
	c := &call{rows: rows, done: make(chan callAnswer, 1), read: func(m *coordination.Machine) outcome.Outcome {
		found <- look(m)
		return outcome.Done()
	}}
	if _, err := g.await(ctx, c); err != nil {
		var nothing T
		return nothing, err
	}
	return <-found, nil
}

// answerReads lets those have their look that this turn has room for, and leaves the others to the next one. The turn is
// held.
func (g *group) answerReads() {
	done, rows := 0, 0
	for ; done < len(g.reads) && (done == 0 || rows+g.reads[done].rows <= maxReadRows); done++ {
		c := g.reads[done]
		if c.taken.Swap(true) { // nobody waits for it any more
			continue
		}
		rows += c.rows
		c.done <- callAnswer{outcome: c.read(g.machine)}
	}
	left := copy(g.reads, g.reads[done:])
	clear(g.reads[left:])
	if g.reads = g.reads[:left]; left > 0 {
		g.queue.signal()
	}
}

// lineageRows is how many rows a path's description looks at, besides what is directly below it.
var lineageRows = scheme.DefaultLimits().Depth + 1

// described is what the description of a path is made of, captured in one turn.
type described struct {
	lineage  scheme.Lineage
	config   coordination.NodeConfig // of a coordination node that is described as one
	children []scheme.Entry          // of a directory that is listed
	outcome  outcome.Outcome         // unless the caller may not even ask
}

// describe returns what look captures of a path once this server is up to date.
func (s *Server) describe(ctx context.Context, path scheme.Path, look func(*coordination.Machine) described) (described, outcome.Outcome, error) {
	if err := s.catchUp(ctx); err != nil {
		return described{}, outcome.Outcome{}, err
	}
	return s.glance(ctx, path, lineageRows, look)
}

// glance returns what look captures of a path, unless the caller may not describe it.
func (s *Server) glance(ctx context.Context, path scheme.Path, rows int, look func(*coordination.Machine) described) (described, outcome.Outcome, error) {
	caller := s.caller(ctx)
	type captured struct {
		described
		subject scheme.Subject
	}
	c, err := capture(ctx, s.group, rows, func(m *coordination.Machine) captured {
		return captured{look(m), m.Subject(caller)}
	})
	if err != nil {
		return described{}, outcome.Outcome{}, err
	}
	if refused := c.lineage.Authorize(path, scheme.DescribeSchema, c.subject); !refused.OK() {
		return described{}, refused, nil
	}
	return c.described, c.outcome, nil
}

// list captures a directory and what is in it, a page at a time. Each page is as of its own turn: the whole is no
// snapshot. If the directory gives way to another one meanwhile, the listing begins anew.
func (s *Server) list(ctx context.Context, path scheme.Path) (described, outcome.Outcome, error) {
	if err := s.catchUp(ctx); err != nil {
		return described{}, outcome.Outcome{}, err
	}
	pageRows := maxReadRows - lineageRows
	var list described
	for {
		after := ""
		if n := len(list.children); n > 0 {
			after = list.children[n-1].Name
		}
		page, answer, err := s.glance(ctx, path, maxReadRows, func(m *coordination.Machine) (d described) {
			d.lineage, d.outcome = m.Tree().EntryToDescribe(path)
			d.children = m.Tree().ChildrenAfter(path, after, pageRows)
			return d
		})
		switch {
		case err != nil || !answer.OK():
			return described{}, answer, err
		case list.lineage != nil && list.lineage[0].ID != page.lineage[0].ID:
			list = described{}
			continue
		}
		full := len(page.children) == pageRows
		page.children = append(list.children, page.children...)
		if list = page; !full {
			return list, answer, nil
		}
	}
}

// catchUp returns once this server has everything that was committed when it was called. Without peers nobody else can
// have led meanwhile, and nothing needs to be asked. Errors: errNoLeader, errStopped, that of ctx.
func (s *Server) catchUp(ctx context.Context) error {
	if s.config.Cluster.ListenPeer == "" && s.streams.localLink() != nil {
		return nil
	}
	err := s.group.catchUp(ctx, s.member.awaitNews)
	if errors.Is(context.Cause(ctx), errOperationTimeout) && !s.streams.led() {
		return errNoLeader
	}
	return err
}
