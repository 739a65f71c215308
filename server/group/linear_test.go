package group

import (
	"testing"

	"github.com/coordd/coordd/conformance/linear"
)

// TestLinesAreLinear goes through each line that may become long in front of a turn or behind it.
func TestLinesAreLinear(t *testing.T) {
	linear.Test(t, "github.com/coordd/coordd/server/group", []linear.Row{
		{Name: "handle a queue", Prepare: func(_ *testing.T, n int) func() {
			q := newQueue()
			return func() {
				for range n {
					q.put(event{})
				}
				q.takeRequests(nil)
			}
		}},
	})
}
