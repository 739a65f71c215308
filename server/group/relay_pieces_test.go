package group

import (
	"bytes"
	"fmt"
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
	p := newRelayPeer(&Group{streams: newStreamSet()}, nil, &relaypb.Hello{Version: relayPieces})
	sizes := map[uint64][]int{1: {10, 5 * relayBatchBytes, 20, 3*relayBatchBytes + 1, 30},
		2: {2 * relayBatchBytes}, 3: {1, 2, 3}}
	for place := range 5 {
		for _, stream := range []uint64{1, 2, 3} {
			if place < len(sizes[stream]) {
				(&relayedStream{peer: p, number: stream}).deliver(nil, described(sizes[stream][place]))
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

// TestServersThatKnowNoPieces: to a server of an earlier version a large message goes whole, in its place.
func TestServersThatKnowNoPieces(t *testing.T) {
	p := newRelayPeer(&Group{streams: newStreamSet()}, nil, &relaypb.Hello{})
	for range 2 {
		(&relayedStream{peer: p, number: 1}).deliver(nil, described(3*relayBatchBytes))
	}
	for range 2 {
		if out := p.take(); len(out.GetMessages()) != 1 || out.GetPiece() != nil {
			t.Errorf("got %d messages, and a piece: %v", len(out.GetMessages()), out.GetPiece() != nil)
		}
	}
	r := &relay{streams: newStreamSet(), out: []*relaypb.Forward{largeForward(1)}}
	if out := r.take(); len(out.GetForwards()) != 1 || out.GetPiece() != nil {
		t.Errorf("got %d, and a piece: %v", len(out.GetForwards()), out.GetPiece() != nil)
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
	r := &relay{streams: newStreamSet(), version: relayPieces,
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
