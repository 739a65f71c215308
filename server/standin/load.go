package standin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// Load makes the coordination nodes and semaphores of a fixture, which is written as Dump writes them:
//
//	# a comment
//	/local/locks
//	  semaphore "config": 0 of 3, "v1"
//	workers
//	  semaphore "leader": 0 of 1
//
// A line that is not indented is the path of a node, which may be relative to the database, and is made if it
// is not there. A semaphore has its name, how much of it is taken, its limit ("all" is the largest), and its
// data, name and data as Go writes strings. What lives by a client has nobody here, so lines of sessions,
// owners, waiters and ephemeral semaphores, as a dump has them, are passed over, and nothing of any semaphore
// is taken. Where a line cannot be read nothing is done. A semaphore that is there already fails the test.
func (s *Server) Load(fixture string) {
	s.helper()()
	ctx, cancel := context.WithTimeout(context.Background(), s.settings.patience)
	defer cancel()
	if err := s.load(ctx, fixture); err != nil {
		s.fail("load: %v", err)
	}
}

// FixtureError is a line of a fixture that cannot be read.
type FixtureError struct {
	Line int // from 1
	Err  error
}

// Error implements error.
func (e *FixtureError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *FixtureError) Unwrap() error { return e.Err }

// wantedNode is a coordination node of a fixture.
type wantedNode struct {
	path       string
	semaphores []wantedSemaphore
}

type wantedSemaphore struct {
	name  string
	limit uint64
	data  []byte
}

func (c *core) load(ctx context.Context, fixture string) error {
	nodes, err := parseFixture(fixture)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := c.loadNode(ctx, c.path(n.path), n.semaphores); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) loadNode(ctx context.Context, path scheme.Path, semaphores []wantedSemaphore) error {
	g, err := c.leader(ctx)
	if err != nil {
		return err
	}
	made, err := g.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Path: path, Owner: scheme.RootOwner}
	})
	if err == nil && !made.OK() {
		err = errors.New(made.String())
	}
	if err != nil {
		return fmt.Errorf("coordination node %s: %w", path, err)
	}
	if len(semaphores) == 0 {
		return nil
	}
	session, _, err := c.attach(ctx, path.String(), 0)
	if err != nil {
		return fmt.Errorf("session of %s: %w", path, err)
	}
	for _, sem := range semaphores {
		_, err := session.ask(ctx, &coordination.Request{Kind: coordination.RequestCreate, Name: sem.name,
			Limit: sem.limit, Data: sem.data})
		if err != nil {
			return errors.Join(fmt.Errorf("semaphore %q of %s: %w", sem.name, path, err), session.stop(ctx))
		}
	}
	return session.stop(ctx)
}

func parseFixture(text string) ([]wantedNode, error) {
	var nodes []wantedNode
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		content := strings.TrimLeft(line, " \t")
		switch {
		case content == "" || strings.HasPrefix(content, "#"):
		case content == line:
			nodes = append(nodes, wantedNode{path: line})
		case len(nodes) == 0:
			return nil, &FixtureError{number,
				errors.New("want the path of a coordination node first, not indented")}
		default:
			node := &nodes[len(nodes)-1]
			sem, err := parseSemaphore(content)
			if err != nil {
				return nil, &FixtureError{number, err}
			}
			if sem != nil {
				node.semaphores = append(node.semaphores, *sem)
			}
		}
	}
	return nodes, nil
}

var errFixtureLine = errors.New(`want a semaphore, such as  semaphore "config": 0 of 3, "v1"`)

// parseSemaphore reads what belongs to a node. It returns nil for what lives by a client.
func parseSemaphore(line string) (*wantedSemaphore, error) {
	for _, skipped := range []string{"session ", "owner: ", "waiter: "} {
		if strings.HasPrefix(line, skipped) {
			return nil, nil
		}
	}
	rest, is := strings.CutPrefix(line, "semaphore ")
	if !is {
		return nil, errFixtureLine
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return nil, errFixtureLine
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return nil, errFixtureLine
	}
	rest, is = strings.CutPrefix(rest[len(quoted):], ": ")
	amounts, data, hasData := strings.Cut(rest, ", ")
	if data == "ephemeral" || strings.HasPrefix(data, "ephemeral, ") {
		return nil, nil
	}
	_, limit, found := strings.Cut(amounts, " of ")
	if !is || !found {
		return nil, errFixtureLine
	}
	sem := &wantedSemaphore{name: name}
	if sem.limit, err = parseAmount(limit); err != nil {
		return nil, errFixtureLine
	}
	if hasData {
		text, err := strconv.Unquote(data)
		if err != nil {
			return nil, errFixtureLine
		}
		sem.data = []byte(text)
	}
	return sem, nil
}

// parseAmount reads what amount writes.
func parseAmount(text string) (uint64, error) {
	if text == "all" {
		return Exclusive, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
