package group

import (
	"context"
	"io"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/group/relaypb"
)

// fuzzedStream is the stream of fuzzedRelay that is attached.
const fuzzedStream = 3

// fuzzedRelay is what another server sends: the start of a stream, one batch once that is attached, and the
// end.
type fuzzedRelay struct {
	grpc.ServerStream
	ctx      context.Context
	batches  []*relaypb.ToLeader
	attached chan struct{} // gets something when the stream is
	sent     int
}

func newFuzzedRelay(ctx context.Context, batch *relaypb.ToLeader) *fuzzedRelay {
	attach := coordination.Forward{Attach: &coordination.AttachRequest{Path: testNode.String(),
		TimeoutMillis: 5_000}}
	begin := &relaypb.ToLeader{Hello: &relaypb.Hello{},
		Forwards: []*relaypb.Forward{relaypb.EncodeForward(fuzzedStream, &attach)}}
	return &fuzzedRelay{ctx: ctx, batches: []*relaypb.ToLeader{begin, batch},
		attached: make(chan struct{}, 1)}
}

func (r *fuzzedRelay) Context() context.Context { return r.ctx }

func (r *fuzzedRelay) Send(batch *relaypb.FromLeader) error {
	for _, m := range batch.GetMessages() {
		if m.GetStream() == fuzzedStream &&
			coordination.MessageKind(m.GetKind()) == coordination.MessageAttached {
			select {
			case r.attached <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

func (r *fuzzedRelay) Recv() (*relaypb.ToLeader, error) {
	if r.sent == len(r.batches) {
		return nil, io.EOF
	}
	if r.sent == 1 {
		select {
		case <-r.attached:
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		}
	}
	r.sent++
	return r.batches[r.sent-1], nil
}

// startFuzzed opens a group in memory, which leads itself, with one node.
func startFuzzed(f *testing.F) *Group {
	f.Helper()
	g := openTest(f, nil)
	wantAlive(f, g)
	return g
}

// wantAlive has the leader do something, behind everything it was told before.
func wantAlive(t testing.TB, g *Group) {
	t.Helper()
	createNode(t, g, testNode)
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	if err := g.core.replica.Machine().Check(); err != nil || g.core.closed {
		t.Fatalf("over: %v, %v", g.core.closed, err)
	}
}

// fuzzedForwards are what a stream on another server begins with.
func fuzzedForwards() *relaypb.ToLeader {
	attach := coordination.Forward{Sequence: 1,
		Attach: &coordination.AttachRequest{Path: testNode.String(), TimeoutMillis: 5_000,
			Description: "fuzz", Server: 7, Identity: coordination.Identity{Kind: coordination.IdentityUser,
				User: accounts.Position{Index: 5, Place: 1}}}}
	batch := &relaypb.ToLeader{Hello: &relaypb.Hello{}, Renew: 1,
		Forwards: []*relaypb.Forward{relaypb.EncodeForward(7, &attach)}}
	for _, kind := range []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 256, 257, 1 << 31} {
		batch.Forwards = append(batch.Forwards,
			&relaypb.Forward{Stream: fuzzedStream, Sequence: uint64(kind) + 2, Answered: uint64(kind),
				Kind: &relaypb.Forward_Request{
					Request: &relaypb.Request{Kind: kind, Name: "lock", Data: []byte("x"), Count: 1, Limit: 1,
						TimeoutMillis: 1, WatchData: true}}})
	}
	roster := coordination.Forward{Sequence: 20,
		Roster: &coordination.Roster{Node: 2, Session: 1, Epoch: coordination.Epoch{Term: 1, Counter: 1},
			Path: testNode.String(), Identity: coordination.Identity{Kind: coordination.IdentityToken,
				Subject: "alice"}, Server: 7, TimeoutMillis: 5_000,
			Open: []coordination.OpenRequest{{Sequence: 3,
				Request: &coordination.Request{Kind: coordination.RequestKind(1), Name: "lock"}}}}}
	detach := coordination.Forward{Sequence: 21, Detach: true}
	batch.Forwards = append(batch.Forwards, relaypb.EncodeForward(4, &roster),
		relaypb.EncodeForward(fuzzedStream, &detach),
		&relaypb.Forward{Stream: 5}, &relaypb.Forward{Stream: 6,
			Kind: &relaypb.Forward_Roster{Roster: &relaypb.Roster{Open: []*relaypb.OpenRequest{{}}}}})
	return batch
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzRelayToLeader gives the leader whatever another server may send: it goes on, and what it reads it would
// write the same.
func FuzzRelayToLeader(f *testing.F) {
	g := startFuzzed(f)
	f.Add([]byte{})
	f.Add(marshal(f, fuzzedForwards()))
	for _, forward := range fuzzedForwards().GetForwards() {
		f.Add(marshal(f, &relaypb.ToLeader{Hello: &relaypb.Hello{},
			Forwards: []*relaypb.Forward{forward}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		batch := new(relaypb.ToLeader)
		if proto.Unmarshal(b, batch) != nil {
			return
		}
		for _, p := range batch.GetForwards() {
			read := relaypb.DecodeForward(p, 7)
			if again := relaypb.DecodeForward(relaypb.EncodeForward(coordination.StreamID(p.GetStream()), &read),
				7); !reflect.DeepEqual(read, again) {
				t.Fatalf("%v was read as %+v, which is written as %+v", p, read, again)
			}
		}
		if err := g.relays.Exchange(7, newFuzzedRelay(t.Context(), batch)); err != nil && err != io.EOF {
			t.Fatalf("the exchange ended with %v", err)
		}
		wantAlive(t, g)
	})
}

// FuzzRelayFromLeader reads whatever a leader may send, and writes it again.
func FuzzRelayFromLeader(f *testing.F) {
	f.Add([]byte{})
	f.Add(marshal(f, &relaypb.FromLeader{Renewed: 3,
		Messages: []*relaypb.Message{{Stream: 1, Kind: 2, Sequence: 3, RefusalStatus: 400_010,
			RefusalText: "no", Description: &relaypb.Description{Name: "lock",
				Owners:  []*relaypb.Link{{Order: 1}},
				Waiters: []*relaypb.Link{{Order: 2, Data: []byte("x")}}}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		batch := new(relaypb.FromLeader)
		if proto.Unmarshal(b, batch) != nil {
			return
		}
		for _, p := range batch.GetMessages() {
			read := relaypb.DecodeMessage(p)
			again := relaypb.DecodeMessage(relaypb.EncodeMessage(p.GetStream(), &read))
			if !reflect.DeepEqual(read, again) {
				t.Fatalf("%v was read as %+v, which is written as %+v", p, read, again)
			}
		}
	})
}

// FuzzRelayExecute has the leader execute whatever another server may ask for.
func FuzzRelayExecute(f *testing.F) {
	g := startFuzzed(f)
	f.Add([]byte{})
	path := scheme.Path{"local", "a"}
	for _, command := range []coordination.Command{
		&coordination.MakeDirectory{Path: path}, &coordination.RemoveDirectory{Path: path},
		&coordination.DropNode{Path: path},
	} {
		f.Add(codec.AppendCommand(nil, command))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// some commands have no outcome to tell
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if _, err := g.executeForPeer(ctx, &relaypb.ExecuteRequest{Command: b}); err == nil {
			return
		}
		select {
		case <-g.over:
			t.Fatal("the group has failed")
		default:
		}
	})
}
