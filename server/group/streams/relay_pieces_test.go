package streams

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/relaypb"
)

// described is an answer with n bytes.
func described(n int) *coordination.Message {
	return &coordination.Message{Kind: coordination.MessageDescribed,
		Description: &coordination.SemaphoreDescription{Name: "s", Data: bytes.Repeat([]byte{7}, n)}}
}

// TestLargeAnswersInPieces has the leader say large and small things to several streams. What is small
// overtakes what is large, but not within a stream, everything comes, and no batch is much larger than it
// should be.
func TestLargeAnswersInPieces(t *testing.T) {
	p := NewPeer(&Peers{}, nil, 7, &relaypb.Hello{})
	p.room = 1 << 40
	sizes := map[uint64][]int{1: {10, 5 * relayBatchBytes, 20, 3*relayBatchBytes + 1, 30},
		2: {2 * relayBatchBytes}, 3: {1, 2, 3}}
	for place := range 5 {
		for _, stream := range []uint64{1, 2, 3} {
			if place < len(sizes[stream]) {
				(&RemoteStream{peer: p, number: stream}).deliver(nil, described(sizes[stream][place]))
			}
		}
	}
	got := make(map[uint64][]int)
	var order []uint64
	take := func(m *relaypb.Message) {
		got[m.GetStream()] = append(got[m.GetStream()], len(m.GetDescription().GetData()))
		order = append(order, m.GetStream())
	}
	var coming pieces
	for out := p.take(); out != nil; out = p.take() {
		if n := proto.Size(out); n > 2*relayBatchBytes+1000 {
			t.Errorf("a batch has %d bytes", n)
		}
		for _, m := range out.GetMessages() {
			take(m)
		}
		m := new(relaypb.Message)
		if piece := out.GetPiece(); piece != nil {
			whole, err := coming.add(piece, m)
			if err != nil {
				t.Fatal(err)
			}
			if whole {
				take(m)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(sizes) {
		t.Errorf("got %v, want %v", got, sizes)
	}
	if !slices.Equal(order[:4], []uint64{1, 3, 3, 3}) {
		t.Errorf("small answers wait behind large ones: %v", order)
	}
	if len(p.behind) > 0 || p.large != nil || p.cut != nil || p.out != nil {
		t.Errorf("something is kept: %v, %d, %d, %d", p.behind, len(p.large), len(p.cut), len(p.out))
	}
}

// TestAnswersKeepTheirOrder has the leader say things of any size to several streams while a backlog leaves. Each
// stream hears in order what was said to it, all of it, whatever stands before it and however much room there is.
func TestAnswersKeepTheirOrder(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := NewPeer(&Peers{}, nil, 7, &relaypb.Hello{})
		p.room = 1 << 40
		if seed%2 == 1 {
			p.room = relayBatchBytes
		}
		said, heard := make(map[uint64]coordination.Sequence), make(map[uint64]coordination.Sequence)
		hear := func(m *relaypb.Message) {
			if heard[m.GetStream()]++; m.GetSequence() != uint64(heard[m.GetStream()]) {
				t.Fatalf("seed %d: stream %d hears %d, then %d", seed, m.GetStream(), heard[m.GetStream()]-1,
					m.GetSequence())
			}
		}
		var coming pieces
		take := func() bool {
			out := p.take()
			for _, m := range out.GetMessages() {
				hear(m)
			}
			m := new(relaypb.Message)
			if piece := out.GetPiece(); piece != nil {
				if whole, err := coming.add(piece, m); err != nil {
					t.Fatal(err)
				} else if whole {
					hear(m)
				}
			}
			p.room += relayBatchBytes / 4 // what comes is taken
			return out != nil
		}
		for range 80 {
			stream := 1 + random.Uint64N(16)
			m := &coordination.Message{Kind: coordination.MessageChanged}
			switch random.IntN(10) {
			case 0:
				m = described(relayBatchBytes + 1000)
			case 1, 2:
				m = described(10)
			case 3, 4, 5, 6, 7:
				m = described(relayBatchBytes * 3 / 4)
			}
			said[stream]++
			m.Sequence = said[stream]
			(&RemoteStream{peer: p, number: stream}).deliver(nil, m)
			if random.IntN(20) == 0 {
				take()
			}
		}
		for take() || len(p.large) > 0 {
		}
		if !maps.Equal(said, heard) {
			t.Errorf("seed %d: said %v, heard %v", seed, said, heard)
		}
	}
}

func largeForward(stream uint64) *relaypb.Forward {
	return &relaypb.Forward{Stream: stream,
		Kind: &relaypb.Forward_Request{Request: &relaypb.Request{Data: make([]byte, 3*relayBatchBytes)}}}
}

// TestLargeRequestsInPieces: what streams of a follower say stays in order, whatever its size.
func TestLargeRequestsInPieces(t *testing.T) {
	small := func(stream uint64) *relaypb.Forward {
		return &relaypb.Forward{Stream: stream, Kind: &relaypb.Forward_Detach{Detach: &relaypb.Detach{}}}
	}
	r := &Relay{streams: New(Config{}),
		out: []*relaypb.Forward{small(1), largeForward(2), small(3), largeForward(4), small(5)}}
	var coming pieces
	var got []uint64
	for out := r.take(); out != nil; out = r.take() {
		if n := proto.Size(out); n > relayBatchBytes+1000 {
			t.Errorf("a batch has %d bytes", n)
		}
		for _, f := range out.GetForwards() {
			got = append(got, f.GetStream())
		}
		f := new(relaypb.Forward)
		if piece := out.GetPiece(); piece != nil {
			whole, err := coming.add(piece, f)
			if err != nil {
				t.Fatal(err)
			}
			if whole {
				got = append(got, f.GetStream())
			}
		}
	}
	if !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("got %v", got)
	}
}

// TestPiecesWithoutAnEnd gives up a relay on which pieces come for ever.
func TestPiecesWithoutAnEnd(t *testing.T) {
	coming := make(pieces, maxPiecedBytes-1)
	if _, err := coming.add(&relaypb.Piece{Data: []byte{1}}, new(relaypb.Message)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := coming.add(&relaypb.Piece{Data: []byte{1}}, new(relaypb.Message)); err == nil {
		t.Error("past the limit it goes on")
	}
}
