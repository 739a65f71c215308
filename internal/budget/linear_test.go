package budget

import (
	"context"
	"testing"

	"github.com/coordd/coordd/conformance/linear"
)

// TestLineIsLinear goes through a long line.
func TestLineIsLinear(t *testing.T) {
	linear.Test(t, "github.com/coordd/coordd/internal/budget", []linear.Row{
		{Name: "serve a line of wishes", Prepare: func(_ *testing.T, n int) func() {
			b, _ := lineOfWishes(n)
			return func() { b.SetLimit(2 * n) }
		}},
		{Name: "give up a line of wishes from its end", Prepare: func(_ *testing.T, n int) func() {
			b, line := lineOfWishes(n)
			gone, leave := context.WithCancel(context.Background())
			leave()
			return func() {
				for i := range line {
					b.await(gone, line[n-1-i])
				}
			}
		}},
	})
}

// lineOfWishes is a budget of which everything is spent, and n wishes that wait for some.
func lineOfWishes(n int) (*Budget, []*waiter) {
	b := New("test", 1)
	b.join(1)
	line := make([]*waiter, n)
	for i := range line {
		line[i] = b.join(1)
	}
	return b, line
}
