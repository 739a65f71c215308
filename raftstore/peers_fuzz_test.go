package raftstore

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// fuzzedStore opens the store of member b of three as far as its peers go: it takes what they send, and no
// raft is there to use it.
func fuzzedStore(f *testing.F) *Store {
	f.Helper()
	cfg := smallConfig(filepath.Join(f.TempDir(), "b"))
	cfg.Cluster = Cluster{Name: "b", Initial: map[string]string{"a": "a:1", "b": "b:1", "c": "c:1"},
		Token: "fuzz", Version: 1, network: newMemNet(1).at("b:1"), AdvertisePeer: "b:1"}
	s := open(f, cfg)
	s.view.Store(&memberView{conf: s.log.LastConf(), fresh: true})
	s.Peers.roster = newRoster(s)
	s.Peers.roster.Conclude()
	s.Peers.out = peers.New(endpoint{s}, s.identity.Member, s.Peers.network, noLog)
	s.loop = &loop{s: s} // nobody may take a turn
	makeWriters(s)
	f.Cleanup(func() {
		s.Peers.out.Close()
		if err := s.closeFiles(); err != nil {
			f.Error(err)
		}
	})
	return s
}

// headerOf returns the header with which member a opens a stream.
func (s *Store) headerOf(urgent bool) *peerpb.Header {
	return &peerpb.Header{Format: peers.Format, Cluster: s.identity.Cluster,
		From: firstMemberID(s.identity.Cluster, "a"), To: s.identity.Member, Incarnation: 5, Address: "a:1",
		Version: 1, Urgent: urgent}
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzPeerMessages gives a member any header and any frame. Raft gets only messages that the sender may send.
func FuzzPeerMessages(f *testing.F) {
	s := fuzzedStore(f)
	h := s.headerOf(true)
	message := func(change func(m *pb.Message)) []byte {
		m := &pb.Message{From: new(h.From), To: new(h.To), Term: new(uint64(2)), Index: new(uint64(1)),
			LogTerm: new(uint64(1)), Commit: new(uint64(1))}
		change(m)
		return encoded(f, m)
	}
	entries := []*pb.Entry{{Index: new(uint64(2)), Term: new(uint64(2)), Data: []byte("x")},
		{Index: new(uint64(3)), Term: new(uint64(2)), Type: pb.EntryConfChange.Enum()}}
	f.Add([]byte{}, []byte{})
	for typ := range pb.MessageType_name {
		m := message(func(m *pb.Message) { m.Type, m.Entries = pb.MessageType(typ).Enum(), entries })
		f.Add(encoded(f, h), encoded(f, &peerpb.Frame{Messages: [][]byte{m}}))
	}
	snapshot := message(func(m *pb.Message) {
		m.Type, m.Snapshot = pb.MsgSnap.Enum(), &pb.Snapshot{Data: []byte("x")}
	})
	f.Add(encoded(f, s.headerOf(false)), encoded(f, &peerpb.Frame{Messages: [][]byte{snapshot, {1, 2, 3}}}))
	f.Fuzz(func(t *testing.T, header, frame []byte) {
		defer func() { s.inbox.mail = mail{} }()
		given, said := &peerpb.Header{}, &peerpb.Frame{}
		if proto.Unmarshal(header, given) == nil && acceptStream(s, given, nil) == nil {
			if given.GetCluster() != s.identity.Cluster || given.GetTo() != s.identity.Member ||
				given.GetFrom() == s.identity.Member {
				t.Fatalf("accepted a stream with %v", given)
			}
			endpointOf(s).Lost(given)
		}
		if proto.Unmarshal(frame, said) != nil {
			return
		}
		_ = endpointOf(s).Receive(h, said) // refused as a whole or from some message on
		for _, m := range s.inbox.take().received {
			if m.GetFrom() != h.GetFrom() || m.GetTo() != h.GetTo() || raft.IsLocalMsg(m.GetType()) ||
				slices.Contains([]pb.MessageType{pb.MsgProp, pb.MsgSnap, pb.MsgTransferLeader}, m.GetType()) {
				t.Fatalf("raft would be given %v", m)
			}
			for i, e := range m.GetEntries() {
				if m.GetType() == pb.MsgApp && e.GetIndex() != m.GetIndex()+1+uint64(i) {
					t.Fatalf("raft would be given entry %d in the place of %d", e.GetIndex(),
						m.GetIndex()+1+uint64(i))
				}
			}
		}
	})
}

// FuzzPeerSnapshot sends a member any checkpoint: it is refused and nothing is held, or it is a whole one,
// with a membership that raft can work with. Rows get the checksums, and if fix is set the record gets the
// sums, that a sender would compute, since chance finds no checksum.
func FuzzPeerSnapshot(f *testing.F) {
	s := fuzzedStore(f)
	h := s.headerOf(false)
	conf := s.log.LastConf()
	message := encoded(f, &pb.Message{Type: pb.MsgSnap.Enum(), From: new(h.From), To: new(h.To),
		Term: new(uint64(2)), Snapshot: &pb.Snapshot{
			Metadata: &pb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)),
				ConfState: conf.ConfState()}}})
	record := func(change func(m *datadir.Meta)) []byte {
		m := datadir.Meta{Format: datadir.MetaFormat, Cluster: s.identity.Cluster, Member: h.From, Index: 9,
			Term: 2, Conf: conf, Restored: 9}
		change(&m)
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	rows := encoded(f, &peerpb.Chunk{Rows: []*peerpb.Row{{Key: []byte("a"), Stored: []byte("1")},
		{Key: []byte("b")}}})
	twice := encoded(f, &peerpb.Chunk{Rows: []*peerpb.Row{{Key: []byte("a")}, {Key: []byte("a")}, {}}})
	whole := record(func(*datadir.Meta) {})
	f.Add(message, rows, whole, true)
	f.Add(message, rows, whole, false)
	f.Add(message, twice, whole, true)
	f.Add(message, rows, record(func(m *datadir.Meta) { m.Conf.Learners = []uint64{h.From, 0} }), true)
	for _, wrong := range []*pb.ConfState{{Voters: []uint64{h.From, h.From}}, {Learners: []uint64{h.To}},
		{Voters: []uint64{h.To}, Learners: []uint64{h.To}},
		{Voters: []uint64{h.To, 0}}, {Voters: []uint64{h.To, raft.LocalApplyThread}},
		{Voters: []uint64{h.To}, AutoLeave: new(true)}} {
		f.Add(encoded(f, &pb.Message{Type: pb.MsgSnap.Enum(), From: new(h.From), To: new(h.To),
			Snapshot: &pb.Snapshot{
				Metadata: &pb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)),
					ConfState: wrong}}}),
			rows, record(func(m *datadir.Meta) { m.Conf = membership.Of(wrong) }), true)
	}
	f.Add(message, rows, []byte("{}"), true)
	f.Add(encoded(f, &pb.Message{Type: pb.MsgApp.Enum()}), []byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, message, rows, record []byte, fix bool) {
		chunk := &peerpb.Chunk{}
		if proto.Unmarshal(rows, chunk) != nil {
			return
		}
		var sent checkpoint.Totals
		for _, r := range chunk.GetRows() {
			r.Stored = checkpoint.Stored(r.GetKey(), r.GetStored())
			sent.Add(r.Stored)
		}
		if meta := (datadir.Meta{}); fix && json.Unmarshal(record, &meta) == nil {
			meta.Rows, meta.Sum = sent.Rows, sent.Sum
			record, _ = json.Marshal(meta)
		}
		sealed := record
		if json.Valid(record) {
			sealed = files.Seal(json.RawMessage(record))
		}
		stream := []*peerpb.Chunk{{Message: message}, {Rows: chunk.GetRows()},
			{Checkpoint: sealed}}
		err := sendSnapshot(s, h, nil, func() (*peerpb.Chunk, error) {
			if len(stream) == 0 {
				return nil, io.EOF
			}
			next := stream[0]
			stream = stream[1:]
			return next, nil
		})
		tasks := s.inbox.take().tasks
		offered := len(tasks)
		s.inbox.mail = mail{}
		if held := len(s.receiver.slot); err != nil && held+offered != 0 || err == nil && held+offered != 2 {
			t.Fatalf("%d held and %d offered after error %v", held, offered, err)
		}
		if err != nil {
			return
		}
		s.Peers.roster.Ask()
		s.Peers.roster.Shut() // raft is not asked
		tasks[0](s.loop)
		s.Peers.roster.Conclude()
		<-s.receiver.slot
		wantWhole(t, s, len(chunk.GetRows()))
	})
}

// wantWhole installs what was received, reads it as the next start would, and starts raft from its membership.
func wantWhole(t *testing.T, s *Store, rows int) {
	t.Helper()
	if err := s.rowStore.Replace(s.loop.offered.file, s.loop.offered.meta); err != nil {
		t.Fatal(err)
	}
	found := 0
	img, err := datadir.Examine(s.cfg.Dir, func(_, _ []byte) error { found++; return nil })
	img.Close()
	if err != nil || found != rows {
		t.Fatalf("%d rows were taken over as %+v, %v", rows, img.Meta, err)
	}
	storage := raft.NewMemoryStorage()
	err = storage.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(img.Meta.Index), Term: new(img.Meta.Term), ConfState: img.Meta.Conf.ConfState()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = raft.NewRawNode(&raft.Config{ID: s.identity.Member, ElectionTick: electionTicks,
		HeartbeatTick: heartbeatTicks, Storage: storage, MaxInflightMsgs: inflightMessagesMax,
		Logger: raftLogger{noLog}})
	if err != nil {
		t.Fatal(err)
	}
}

// saidHello is a network on which everybody gives the same answer.
type saidHello struct {
	*memEnd
	answer *peerpb.HelloResponse
}

func (n saidHello) Hello(context.Context, string, *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	return n.answer, nil
}

// FuzzPeerHello gives any answer to a server that starts for the first time, by itself or to join: it
// refuses, or opens a directory that it can open again.
func FuzzPeerHello(f *testing.F) {
	conf := membership.Conf{Voters: []uint64{4}, Learners: []uint64{5},
		Members: []membership.Record{{ID: 4, Name: "a", Peer: "a:1", Incarnation: 1, Version: 1},
			{ID: 5, Name: "b", Peer: "b:1"}}}
	first := membership.Conf{Voters: []uint64{4}, Members: conf.Members[:1]}
	f.Add([]byte{})
	f.Add(encoded(f, &peerpb.HelloResponse{Cluster: 3, Member: 4, Leader: 4, Membership: conf.Encode(),
		Version: 1}))
	f.Add(encoded(f, &peerpb.HelloResponse{Cluster: 3, Member: 4, Leader: 4, Membership: conf.Encode(),
		Origin: first.Encode(), Forced: 1, Version: 1}))
	f.Add(encoded(f, &peerpb.HelloResponse{Cluster: 3, Membership: []byte("null"), Origin: []byte("{}")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		answer := &peerpb.HelloResponse{}
		if proto.Unmarshal(b, answer) != nil {
			return
		}
		net := saidHello{newMemNet(1).at("b:1"), answer}
		_, err := staticOrigin(t.Context(), Cluster{Name: "b",
			Initial: map[string]string{"a": "a:1", "b": "b:1"}}, net)
		if err == nil && !answer.GetFresh() && len(answer.GetMembership()) == 0 {
			t.Fatalf("started beside %v", answer)
		}
		cluster := Cluster{Name: "b", Join: []string{"a:1"}, AdvertisePeer: "b:1", Version: 1, network: net}
		if _, _, err := askToJoin(t.Context(), cluster, net, "a:1"); err != nil {
			return
		}
		cfg := smallConfig(filepath.Join(t.TempDir(), "b"))
		cfg.Cluster = cluster
		for range 2 {
			s, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatalf("joined by %v, and cannot open: %v", answer, err)
			}
			_, _ = newNode(s) // a membership that raft cannot work with is an error, and no panic
			if err := s.closeFiles(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
