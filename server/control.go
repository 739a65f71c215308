package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group"
)

// control gives a stand-in control of its server. It implements hooks.Control.
type control struct{ *Server }

// Leads implements hooks.Control.
func (c control) Leads() bool { return c.group.Leads() }

// LoseLeader implements hooks.Control.
func (c control) LoseLeader(ctx context.Context, d time.Duration) error {
	if c.config.Cluster.ListenPeer == "" {
		return c.group.Abdicate(d)
	}
	c.group.HandOver(ctx)
	if c.group.Leads() {
		return errors.New("no other server can lead")
	}
	return nil
}

// ExpireSession implements hooks.Control.
func (c control) ExpireSession(ctx context.Context, node string, session uint64) error {
	id, err := c.node(ctx, node)
	if err != nil {
		return err
	}
	answer, err := c.group.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.EndSession{CallID: call, Node: id, Session: coordination.SessionID(session),
			Reason: "a fault"}
	})
	if err = succeeded(answer, err); err != nil {
		return fmt.Errorf("session %d of %s %w", session, node, err)
	}
	return nil
}

// node finds a coordination node by its path.
func (c control) node(ctx context.Context, path string) (id coordination.NodeID, err error) {
	split := scheme.SplitLoose(path)
	found, answer, err := c.group.Describe(ctx, coordination.Caller{}, split,
		func(m *coordination.Machine) (d group.Described) {
			d.Lineage, d.Outcome = m.Tree().NodeToDescribe(split)
			return d
		})
	if err = succeeded(answer, err); err != nil {
		return 0, fmt.Errorf("coordination node %s %w", path, err)
	}
	return found.Lineage[0].Node, nil
}

// DropNode implements hooks.Control.
func (c control) DropNode(ctx context.Context, node string) error {
	path, answer := scheme.SplitAtLastSlash(node)
	var err error
	if answer.OK() {
		answer, err = c.group.Execute(ctx, func(call coordination.CallID) coordination.Command {
			return &coordination.DropNode{CallID: call, Path: path}
		})
	}
	if err = succeeded(answer, err); err != nil {
		return fmt.Errorf("coordination node %s %w", node, err)
	}
	return nil
}

// succeeded is the outcome of a command as an error: what faults ask for is refused only where it does not exist.
func succeeded(answer outcome.Outcome, err error) error {
	if err != nil || answer.OK() {
		return err
	}
	return fmt.Errorf("%w (%v)", hooks.ErrMissing, answer)
}
