package streams

import (
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/group/relaypb"
)

// TestDescriptionsWaitForRoom has the leader describe more to another server than that takes: it begins
// nothing beyond the room, whether it is large or small, while what is no description goes on; and all of it
// comes, in its order, as clients take it.
func TestDescriptionsWaitForRoom(t *testing.T) {
	const each, many, room = 100_000, 9, 450_000
	p := NewPeer(&Peers{}, nil, 7, &relaypb.Hello{})
	r := &Relay{streams: New(Config{})}
	held := 0
	r.streams.Copies.Adjust(maxCopiedBytes - room)
	said := r.take()
	if said.GetRoom() != room {
		t.Fatalf("the first word is %v", said)
	}
	p.room = said.GetRoom()
	for i := range uint64(many) {
		size := each
		if i == 3 {
			size = 2 * relayBatchBytes
		}
		m := described(size)
		m.Sequence = coordination.Sequence(i + 1)
		(&RemoteStream{peer: p, number: 1 + i%4}).deliver(nil, m)
	}
	(&RemoteStream{peer: p, number: 9}).deliver(nil,
		&coordination.Message{Kind: coordination.MessagePending})
	got := make(map[uint64][]uint64)
	pending := 0
	var coming pieces
	pass := func() {
		for out := p.take(); out != nil; out = p.take() {
			messages := out.GetMessages()
			if piece := out.GetPiece(); piece != nil {
				m := new(relaypb.Message)
				if whole, err := coming.add(piece, m); err != nil {
					t.Fatal(err)
				} else if whole {
					messages = append(messages, m)
				}
			}
			for _, m := range messages {
				if m.GetDescription() == nil {
					pending++
					continue
				}
				got[m.GetStream()] = append(got[m.GetStream()], m.GetSequence())
				n := len(m.GetDescription().GetData())
				held += n
				r.streams.Copies.Adjust(n)
			}
			r.count(out.GetCounted())
		}
	}
	pass()
	if held < room || held > room+2*relayBatchBytes || pending != 1 {
		t.Fatalf("with room for %d, %d bytes were sent, and %d other messages", room, held, pending)
	}
	for rounds := 0; len(got[1])+len(got[2])+len(got[3])+len(got[4]) < many; rounds++ {
		if rounds > many {
			t.Fatalf("got %v, %d bytes are held", got, held)
		}
		r.streams.Copies.Release(held) // the clients take all
		held = 0
		r.asking, r.last = true, 1 // with which it tells at the latest
		p.room = max(p.room, r.take().GetRoom())
		pass()
	}
	for stream, sequences := range got {
		for i, s := range sequences {
			if s != stream+4*uint64(i) {
				t.Errorf("stream %d is told %v", stream, sequences)
			}
		}
	}
	if p.large != nil || p.cut != nil || len(p.behind) > 0 {
		t.Error("something is left")
	}
}

// TestRoomIsTold has clients take what they were told: the leader hears at once of room that is worth a word.
func TestRoomIsTold(t *testing.T) {
	r := &Relay{streams: New(Config{}), bell: turn.NewBell()}
	r.streams.Copies.OnRelease(r.freed)
	r.streams.Copies.Adjust(maxCopiedBytes)
	if out := r.take(); out != nil {
		t.Fatalf("there is no room, and it says %v", out)
	}
	r.streams.Copies.Release(roomStep)
	select {
	case <-r.bell:
	default:
		t.Fatal("nobody is to tell")
	}
	if out := r.take(); out.GetRoom() != roomStep {
		t.Errorf("it says %v", out)
	}
	r.streams.Copies.Release(roomStep / 2)
	if out := r.take(); out != nil {
		t.Errorf("it says %v", out)
	}
	r.asking, r.last = true, 1
	if out := r.take(); out.GetRoom() != roomStep*3/2 {
		t.Errorf("with a request for a permit it says %v", out)
	}
}
