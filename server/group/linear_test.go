package group

import (
	"context"
	"strings"
	"testing"

	"github.com/coordd/coordd/conformance/linear"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/relaypb"
)

// TestLinesAreLinear goes through each line that may become long in front of a turn or behind it.
func TestLinesAreLinear(t *testing.T) {
	linear.Test(t, "github.com/coordd/coordd/server/group", []linear.Row{
		{Name: "serve a line of wishes", Prepare: func(_ *testing.T, n int) func() {
			b, _ := lineOfWishes(n)
			return func() { b.limit(2 * n) }
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
		{Name: "send what the leader has said", Prepare: func(_ *testing.T, n int) func() {
			p := newRelayPeer(nil, nil, &relaypb.Hello{Version: relayRoom})
			s := &relayedStream{peer: p}
			large := strings.Repeat("x", relayBatchBytes)
			return func() {
				for i := range n {
					m := coordination.Message{Kind: coordination.MessageResult}
					if i == 0 { // everything goes behind it
						m = coordination.Message{Kind: coordination.MessageDescribed,
							Description: &coordination.SemaphoreDescription{Data: []byte(large)}}
						p.room = 2 * relayBatchBytes
					}
					s.deliver(nil, &m)
				}
				for p.take() != nil {
				}
			}
		}},
		{Name: "send what streams have said", Prepare: func(_ *testing.T, n int) func() {
			r := &relay{streams: newStreamSet()}
			for range n {
				r.out = append(r.out, &relaypb.Forward{})
			}
			return func() {
				for r.take() != nil {
				}
			}
		}},
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

// lineOfWishes is a budget of which everything is spent, and n wishes that wait for some.
func lineOfWishes(n int) (*budget, []*wish) {
	b := new(budget)
	b.limit(1)
	b.wishFor(1)
	line := make([]*wish, n)
	for i := range line {
		line[i] = b.wishFor(1)
	}
	return b, line
}
