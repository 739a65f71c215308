package group

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// executed runs a command that must succeed.
func executed(t *testing.T, g *Group, build func(coordination.CallID) coordination.Command) {
	t.Helper()
	if answer, err := g.Execute(t.Context(), build); err != nil || !answer.OK() {
		t.Fatal(answer, err)
	}
}

// listedGroup is a group with a node that has so many resources, and their paths, sorted.
func listedGroup(t *testing.T, count, bytes int) (*Group, []string) {
	t.Helper()
	g := openTest(t, func(c *Config) { c.listedBytes = bytes })
	node := scheme.SplitLoose("/local/n")
	executed(t, g, func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Path: node}
	})
	paths := make([]string, count)
	for i := range paths {
		paths[i] = fmt.Sprintf("r%05d", i)
		executed(t, g, func(call coordination.CallID) coordination.Command {
			return &coordination.CreateResource{CallID: call, Path: node, Resource: paths[i],
				ResourceProperties: coordination.ResourceProperties{MaxUnitsPerSecond: coordination.RealOf(1)}}
		})
	}
	return g, paths
}

func TestResourceListInPages(t *testing.T) {
	g, want := listedGroup(t, 2*maxReadRows, 0)
	got, answer, err := g.ListResources(t.Context(), coordination.Caller{},
		coordination.ResourceListing{Path: scheme.SplitLoose("/local/n")})
	slices.Sort(got)
	if err != nil || !answer.OK() || !slices.Equal(got, want) {
		t.Errorf("%d of %d resources, %s, %v", len(got), len(want), answer, err)
	}
}

// Exactly what fits is listed, and not one byte more.
func TestResourceListIsTooLarge(t *testing.T) {
	for past := range 2 {
		g, want := listedGroup(t, 3, 30-past)
		got, answer, err := g.ListResources(t.Context(), coordination.Caller{},
			coordination.ResourceListing{Path: scheme.SplitLoose("/local/n")})
		switch {
		case err != nil:
			t.Error(err)
		case past == 0 && !slices.Equal(got, want):
			t.Errorf("%v, %s", got, answer)
		case past == 1 &&
			(got != nil || answer.String() != "PRECONDITION_FAILED [0/1] Resource list is too large to send"):
			t.Errorf("%v, %s", got, answer)
		}
	}
}

// A panic of a part beside the turn ends the server as one within a turn does.
func TestPanicOfAPart(t *testing.T) {
	failed := make(chan error, 1)
	g := openTest(t, func(c *Config) { c.Failed = func(err error) { failed <- err } })
	inside{g}.Panicked("broken")
	var invariant *InvariantError
	if err := <-failed; !errors.As(err, &invariant) {
		t.Errorf("ended with %v", err)
	}
}
