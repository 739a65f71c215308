package streams

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/group/relaypb"
)

// TestFirstOf splits what goes over a relay: in order, nothing lost, and no batch much larger than it should
// be unless one message is.
func TestFirstOf(t *testing.T) {
	for _, sizes := range [][]int{{}, {1}, {relayBatchBytes, 1}, {1, 3 * relayBatchBytes, 1},
		{3 * relayBatchBytes, 3 * relayBatchBytes},
		slices.Repeat([]int{relayBatchBytes / 4}, 10)} {
		var rest []*wrapperspb.BytesValue
		for _, size := range sizes {
			rest = append(rest, wrapperspb.Bytes(make([]byte, size)))
		}
		var got []int
		for len(rest) > 0 {
			var batch []*wrapperspb.BytesValue
			batch, rest = firstOf(rest)
			sum := 0
			for _, m := range batch {
				sum += len(m.GetValue())
				got = append(got, len(m.GetValue()))
			}
			if len(batch) == 0 || len(batch) > 1 && sum > 2*relayBatchBytes {
				t.Fatalf("%v: a batch of %d messages and %d bytes", sizes, len(batch), sum)
			}
		}
		if !slices.Equal(got, sizes) {
			t.Errorf("%v became %v", sizes, got)
		}
	}
}

// TestRosterTooLarge ends a stream that has more open than a leader change can carry, and leaves the relay to
// the others.
func TestRosterTooLarge(t *testing.T) {
	for _, over := range []bool{false, true} {
		r := newSilenceRunOf(&choices{numbers: slices.Repeat([]float64{0}, 1000)}, true, 5000,
			[3]float64{1, 1, 1})
		r.run(time.Second)
		r.f.follow()
		r.first.breakAtFollower()
		data := make([]byte, maxRosterBytes/4)
		for range 3 {
			r.ask(data)
		}
		if over {
			r.ask(data)
		}
		to := &Relay{streams: New(Config{}), bell: turn.NewBell()}
		r.f.streams.join(to)
		s := r.stream
		if !over {
			if len(to.out) != 1 || to.out[0].GetRoster() == nil {
				t.Errorf("the roster is %v", to.out)
			}
			continue
		}
		// another goroutine ends it
		for ending := coordination.EndingNone; ending == coordination.EndingNone; {
			s.mutex.Lock()
			ending = s.front.Ending()
			s.mutex.Unlock()
		}
		if slices.ContainsFunc(to.out, func(f *relaypb.Forward) bool { return f.GetRoster() != nil }) {
			t.Error("the roster was sent nevertheless")
		}
	}
}

// ask has the client create a semaphore with data.
func (r *silenceRun) ask(data []byte) {
	r.say(coordination.ClientMessage{Kind: coordination.ClientSemaphore,
		Request: &coordination.Request{Kind: coordination.RequestCreate, Name: "s", Limit: 1, Data: data}})
}

// TestOneRelayOfAServer has a server open a second relay before the leader has noticed that the first one
// broke.
func TestOneRelayOfAServer(t *testing.T) {
	var peers Peers
	older, newer := &Peer{from: 1, process: 5, superseded: make(chan struct{})},
		&Peer{from: 1, process: 5, number: 1, superseded: make(chan struct{})}
	other := &Peer{from: 2, superseded: make(chan struct{})}
	peers.add(older)
	peers.add(other)
	peers.add(newer)
	closed := func(c chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if !closed(older.superseded) || closed(newer.superseded) || closed(other.superseded) {
		t.Error("the wrong relay is superseded")
	}
	if late := (&Peer{from: 1, process: 5, superseded: make(chan struct{})}); peers.add(late) ||
		closed(newer.superseded) {
		t.Error("a relay that the network has held back takes the place of a newer one")
	}
	core := new(silentServer)
	older.peers, older.link, older.streams = &Peers{core: core}, new(Local), make(map[uint64]*RemoteStream)
	older.forward([]*relaypb.Forward{{Stream: 1}})
	if len(core.queue) > 0 {
		t.Error("what a superseded relay brings still counts")
	}
	peers.remove(older)
	if peers.open[1] != newer {
		t.Error("the end of the older relay took the newer one with it")
	}
	peers.remove(newer)
	peers.remove(other)
	peers.Wait(t.Context())
}
