package raftstore

import (
	"errors"
	"io"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// frameOf is a frame with one message.
func frameOf(t *testing.T, m *pb.Message) *peerpb.Frame {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return &peerpb.Frame{Messages: [][]byte{b}}
}

// The row "Peers" of the catalogue of bad input: no sender and no message makes a member lead or stop, or changes
// anything that was agreed on.
func TestPeersRow(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 530)
	m := c.leader()
	c.waitPublished(m)
	c.put("before")
	s, other := m.store, c.nodes[others(c.names, m.name)[0]].store
	term := func() (term uint64) {
		m.note(func() { term = m.term })
		return term
	}
	led := term()
	const stranger = 77
	message := func(typ pb.MessageType, from, term uint64) *pb.Message {
		return &pb.Message{Type: typ.Enum(), From: new(uint64(from)), To: new(s.Member()), Term: new(term),
			Context: []byte("CampaignTransfer")}
	}

	// A member may not speak for another, nor send what only this one sends to itself.
	h := endpointOf(other).Header(s.Member(), false)
	if err := acceptStream(s, h, nil); err != nil {
		t.Fatal(err)
	}
	for name, forged := range map[string]*pb.Message{
		"of another":           message(pb.MsgApp, stranger, led),
		"a proposal":           message(pb.MsgProp, other.Member(), led),
		"a call to campaign":   message(pb.MsgHup, other.Member(), led),
		"a finished write":     message(pb.MsgStorageAppendResp, other.Member(), led),
		"a snapshot by itself": message(pb.MsgSnap, other.Member(), led),
	} {
		if err := endpointOf(s).Receive(h, frameOf(t, forged)); err == nil {
			t.Errorf("a message %s was taken", name)
		}
	}
	if err := endpointOf(s).Receive(h, &peerpb.Frame{Messages: [][]byte{{0xff}}}); err == nil {
		t.Error("a message that is none was taken")
	}

	// A future term of a member is an election like any other.
	if err := endpointOf(s).Receive(h, frameOf(t, message(pb.MsgHeartbeat, other.Member(), led+100))); err != nil {
		t.Error(err)
	}
	c.put("after a term of the future")

	// Another cluster.
	h = endpointOf(other).Header(s.Member(), true)
	h.Cluster++
	if err := acceptStream(s, h, nil); !errors.Is(err, ErrOtherCluster) {
		t.Errorf("another cluster: %v", err)
	}
	c.settle()
}

// A checkpoint that is too much for the disk is refused before the disk is full, and one with a chunk that is
// too large ends with its stream.
func TestOversizedSnapshot(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 540)
	free := c.withFreeSpace("a")
	c.leader()
	c.waitPublished(c.nodes["a"])
	free["a"].Store(1)
	c.waitFull("a", true)
	from := c.leader("b", "c").store
	a := c.nodes["a"].store
	header := endpointOf(from).Header(a.Member(), false)
	first := encoded(t, &pb.Message{Type: pb.MsgSnap.Enum(), From: new(from.Member()), To: new(a.Member()),
		Term: new(uint64(9)), Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(1000)),
			Term: new(uint64(9)), ConfState: &pb.ConfState{}}}})
	sent := 0
	err := sendSnapshot(a, header, nil, func() (*peerpb.Chunk, error) {
		if sent++; sent == 1 {
			return &peerpb.Chunk{Message: first}, nil
		} else if sent > 100 {
			return nil, io.EOF
		}
		return &peerpb.Chunk{Rows: []*peerpb.Row{{Key: []byte{byte(sent)},
			Stored: make([]byte, snapshotChunkBytes)}}}, nil
	})
	if !errors.Is(err, ErrReserve) || sent > 2 {
		t.Errorf("after %d chunks: %v", sent, err)
	}
	free["a"].Store(1000)
	c.waitFull("a", false)
	c.settle()
}

func TestOversizedMessages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	c := newGRPCCluster(t, 3, nil)
	m := c.leader()
	c.waitPublished(m)
	s, other := m.store, c.nodes[others(c.names, m.name)[0]].store
	from := endpointOf(other).Header(s.Member(), false)
	sent := 0
	err := s.Peers.network.Snapshot(testContext(t), s.cfg.Cluster.address(), from, func() (*peerpb.Chunk, error) {
		sent++
		return &peerpb.Chunk{Message: make([]byte, peers.MessageMax+1)}, nil
	})
	if err == nil {
		t.Error("a chunk beyond the bound was taken")
	}
	out, err := s.Peers.network.Messages(testContext(t), s.cfg.Cluster.address(),
		endpointOf(other).Header(s.Member(), false))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.Send(&peerpb.Frame{Messages: [][]byte{make([]byte, peers.MessageMax+1)}}); err == nil {
		<-out.Ended()
	}
	c.put("still alive")
	c.settle()
}
