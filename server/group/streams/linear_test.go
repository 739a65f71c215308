package streams

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/conformance/linear"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/relaypb"
)

// TestRelaysAreLinear goes through the lines of what waits to be sent.
func TestRelaysAreLinear(t *testing.T) {
	linear.Test(t, "github.com/coordd/coordd/server/group/streams", []linear.Row{
		{Name: "send what the leader has said", Prepare: func(_ *testing.T, n int) func() {
			p := NewPeer(nil, nil, 7, &relaypb.Hello{})
			s := &RemoteStream{peer: p}
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
			r := &Relay{streams: New(Config{})}
			for range n {
				r.out = append(r.out, &relaypb.Forward{})
			}
			return func() {
				for r.take() != nil {
				}
			}
		}},
	})
}
