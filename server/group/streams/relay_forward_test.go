package streams

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/relaypb"
)

// TestRelayedDescriptionIsTranslatedOutsideTheTurn: what the leader says to a stream of another server is
// left as it is by the turn, however many links it describes.
func TestRelayedDescriptionIsTranslatedOutsideTheTurn(t *testing.T) {
	p := NewPeer(&Peers{}, nil, 7, &relaypb.Hello{})
	p.room = 1 << 40
	described := &coordination.SemaphoreDescription{Name: "lock",
		Waiters: coordination.LinksOf(make([]coordination.LinkDescription, 100))}
	for range 2 {
		(&RemoteStream{peer: p, number: 3}).deliver(nil,
			&coordination.Message{Kind: coordination.MessageDescribed, Description: described})
	}
	if len(p.said) != 2 || p.said[0].message.Description != described || p.out != nil {
		t.Errorf("the turn left %d messages as they were, and %d translated", len(p.said), len(p.out))
	}
	out := p.take().GetMessages()
	if len(out) != 2 || out[0].GetStream() != 3 || len(out[0].GetDescription().GetWaiters()) != 100 {
		t.Errorf("%d messages are sent", len(out))
	}
	if more := p.take(); more != nil {
		t.Errorf("something is sent twice: %v", more)
	}
}

// TestLyingFollowerIsCutOff has another server send requests without end while the leader is held up: it
// keeps to no credit. Its relay ends when it has as much in the queue as two leaders may have, and what was
// taken counts no more.
func TestLyingFollowerIsCutOff(t *testing.T) {
	const each = 1 << 20
	core := new(silentServer)
	p := NewPeer(&Peers{core: core, streams: testSet(nil, 0)}, new(Local), 7, &relaypb.Hello{})
	if err := p.forward([]*relaypb.Forward{{Stream: 1,
		Kind: &relaypb.Forward_Attach{Attach: &relaypb.Attach{Path: "/local/node"}}}}); err != nil {
		t.Fatal(err)
	}
	update := func() error {
		return p.forward([]*relaypb.Forward{{Stream: 1,
			Kind: &relaypb.Forward_Request{Request: &relaypb.Request{Kind: uint32(coordination.RequestUpdate),
				Data: make([]byte, each)}}}})
	}
	taken := 0
	for ; update() == nil; taken++ {
		if taken > maxForwardedBytes/each {
			t.Fatal("the relay goes on")
		}
	}
	waiting := func() (bytes int) {
		for i := range core.queue {
			bytes += core.queue[i].Size()
		}
		return bytes
	}
	if n := waiting(); n > maxForwardedBytes || taken < maxForwardedBytes/each-1 ||
		!errors.Is(update(), errOverCredit) {
		t.Errorf("%d requests were taken, and %d bytes wait", taken, n)
	}
	for i := range core.queue {
		q := &core.queue[i]
		q.Sink.(*RemoteStream).Dequeued(q.Size())
	}
	core.queue = nil
	if err := update(); err != nil || p.queued.Load() != int64(waiting()) {
		t.Errorf("%v; %d bytes count of those that wait", err, p.queued.Load())
	}
}
