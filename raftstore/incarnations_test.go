package raftstore

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/wal"
)

// emptiedWorld has member a, whose directory is emptied now and then, and member b, with a real disk, which hears a
// while the log has no incarnation of either.
type emptiedWorld struct {
	t       *testing.T
	seed    uint64
	cfg     Config
	b       *Store
	now     uint64           // a's incarnation
	made    bool             // a has a directory
	runs    bool             // a has asked b since it was made
	streams []*peerpb.Header // of all lives of a, as long as b lives: what was sent may still arrive
	bound   []uint64         // incarnations of which b's raft has a binding message
	heard   uint64           // the incarnation of a's last stream before b had an entry, or of the first one since
	entry   bool             // b has an entry, of a third member
}

func newEmptiedWorld(t *testing.T, seed uint64) *emptiedWorld {
	w := &emptiedWorld{t: t, seed: seed, cfg: smallConfig(filepath.Join(t.TempDir(), "b")), now: 1}
	w.cfg.Cluster = Cluster{Name: "b", Initial: map[string]string{"a": "a:1", "b": "b:1", "c": "c:1"},
		Token: "emptied", Version: 1, network: newMemNet(1).at("b:1"), AdvertisePeer: "b:1"}
	return w
}

func (w *emptiedWorld) start() {
	w.b = open(w.t, w.cfg)
	w.b.view.Store(&memberView{conf: w.b.log.LastConf(), fresh: true})
	w.b.Peers.roster = newRoster(w.b)
	w.b.Peers.roster.Conclude()
	w.b.loop = &loop{s: w.b} // nobody may take a turn
	w.b.Peers.out = peers.New(endpoint{w.b}, w.b.identity.Member, w.b.Peers.network, noLog)
}

func (w *emptiedWorld) end() {
	w.b.Peers.out.Close()
	if err := w.b.closeFiles(); err != nil {
		w.t.Fatal(err)
	}
	w.streams = nil
}

// lost reports whether a has lost a directory with which it has sent b something binding.
func (w *emptiedWorld) lost() bool { return len(w.bound) > 0 && !slices.Contains(w.bound, w.now) }

// witnessed reports whether a has lost a directory with which it may have sent others something binding.
func (w *emptiedWorld) witnessed() bool {
	return !w.lost() && w.entry && w.heard != 0 && w.heard != w.now
}

func (w *emptiedWorld) expect(what string, err error, lost bool) {
	w.t.Helper()
	if refused := errors.Is(err, ErrEmptied); refused != lost || err != nil && !refused {
		w.t.Fatalf("seed %d: %s with incarnation %d, bound %v, heard %d, entry %v: %v", w.seed, what, w.now, w.bound,
			w.heard, w.entry, err)
	}
}

// append makes b's log begin.
func (w *emptiedWorld) append() {
	entries := []*pb.Entry{{Index: new(uint64(2)), Term: new(uint64(1))}}
	if err := w.b.device.Append(&wal.HardState{Term: 1, Commit: 1}, entries); err != nil {
		w.t.Fatal(err)
	}
	w.b.log.Append(entries)
	w.entry = true
}

// ask is a first start of a: before it has a directory, and once it has one.
func (w *emptiedWorld) ask() {
	id := w.b.headerOf(true).GetFrom()
	first := w.b.log.LastConf()
	if !w.made {
		net := &memNet{servers: map[string]peers.Server{"b:1": endpoint{w.b}}, rng: rand.New(rand.NewPCG(1, 1))}
		err := mayStart(w.t.Context(), net.at("a:1"), "b:1",
			datadir.Identity{Cluster: w.b.identity.Cluster, Member: id}, first)
		w.expect("start", err, w.lost() || w.witnessed())
		if w.made = err == nil; !w.made {
			return
		}
	}
	answer, err := endpointOf(w.b).Hello(
		&peerpb.HelloRequest{Cluster: w.b.identity.Cluster, Member: id, Incarnation: w.now},
		nil)
	if err != nil {
		w.t.Fatal(err)
	}
	conf, err := membership.Decode(answer.GetMembership())
	if err != nil {
		w.t.Fatal(err)
	}
	q := membership.Asker{Self: id, Incarnation: w.now, Own: first, Fresh: true}
	err = nil
	if q.Judge([]membership.Answer{{ID: w.b.identity.Member, Conf: &conf}}).Emptied {
		err = ErrEmptied
	}
	w.expect("ask", err, w.lost() || w.witnessed())
	w.runs = !w.witnessed()
}

func (w *emptiedWorld) open() {
	h := w.b.headerOf(true)
	h.Incarnation = w.now
	err := acceptStream(w.b, h, nil)
	w.expect("open a stream", err, w.lost())
	if err == nil && (w.heard == 0 || !w.entry) {
		w.heard = w.now
	}
	if known := endpointOf(w.b).Header(h.GetFrom(), true).GetToIncarnation(); known != 0 != (len(w.bound) > 0) {
		w.t.Fatalf("seed %d: b tells %d, bound %v", w.seed, known, w.bound)
	}
	w.streams = append(w.streams, h)
}

func (w *emptiedWorld) send(h *peerpb.Header, typ pb.MessageType) {
	m := &pb.Message{Type: typ.Enum(), From: new(h.GetFrom()), To: new(h.GetTo()), Term: new(uint64(2))}
	err := endpointOf(w.b).Receive(h, frameOf(w.t, m))
	reached := len(w.b.inbox.take().received) > 0
	switch {
	case reached != (err == nil), err != nil && !errors.Is(err, ErrEmptied):
		w.t.Fatalf("seed %d: %v reached raft: %v, and the stream ended with %v", w.seed, typ, reached, err)
	case reached && typ == pb.MsgVoteResp && !slices.Contains(w.bound, h.GetIncarnation()):
		w.bound = append(w.bound, h.GetIncarnation())
	}
	if len(w.bound) > 1 || reached && typ == pb.MsgVoteResp && w.runs && h.GetIncarnation() != w.now {
		w.t.Fatalf("seed %d: raft hears incarnation %d, the present one is %d, bound %v", w.seed, h.GetIncarnation(),
			w.now, w.bound)
	}
}

// A member that has sent something binding and lost its directory is refused by the member that has had it, restarts
// included; one that may have done so, by a member that has had its stream and an entry. Others are never refused.
func TestEmptiedBeforeItIsPublished(t *testing.T) {
	t.Parallel()
	lost, witnessed := 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 38))
		w := newEmptiedWorld(t, seed)
		w.start()
		for range 40 {
			switch rng.IntN(10) {
			case 0:
				w.now, w.made, w.runs = w.now+1, false, false
			case 1:
				w.end()
				w.start()
			case 2, 3:
				w.ask()
			case 4, 5:
				if w.runs {
					w.open()
				}
			default:
				typ := []pb.MessageType{pb.MsgPreVoteResp, pb.MsgVoteResp}[rng.IntN(2)]
				if len(w.streams) > 0 && seed%2 == 0 {
					w.send(w.streams[rng.IntN(len(w.streams))], typ)
				} else if !w.entry && rng.IntN(4) == 0 {
					w.append()
				}
			}
			if w.lost() {
				lost++
			}
			if w.witnessed() {
				witnessed++
			}
		}
		w.end()
	}
	if lost == 0 || witnessed == 0 {
		t.Errorf("a member had lost its promise to b %d times, %d times one that b may have witnessed", lost, witnessed)
	}
}

// Nothing binding that a member says reaches raft before its incarnation is durable.
func TestIncarnationIsDurableFirst(t *testing.T) {
	t.Parallel()
	w := newEmptiedWorld(t, 0)
	w.start()
	defer w.end()
	w.ask()
	w.open()
	w.b.disk.Before = func(step, _ string) error {
		if step == "rename" {
			return errKilled
		}
		return nil
	}
	h := w.streams[0]
	m := &pb.Message{Type: pb.MsgVoteResp.Enum(), From: new(h.GetFrom()), To: new(h.GetTo()), Term: new(uint64(2))}
	err := endpointOf(w.b).Receive(h, frameOf(t, m))
	mail := w.b.inbox.take()
	if !errors.Is(err, errKilled) || len(mail.received) > 0 || !errors.Is(mail.failure, errKilled) {
		t.Errorf("ended with %v; raft has %v, and the store ends with %v", err, mail.received, mail.failure)
	}
}
