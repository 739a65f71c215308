package peers

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// The present address counts as sent when every member that can be reached has it.
func TestClientAddressSent(t *testing.T) {
	first, second := "a:1", "a:2"
	reached, silent := &lane{}, &lane{}
	reached.up.Store(true)
	p := &Transport{peers: map[uint64]*peer{2: {urgent: reached}, 3: {urgent: silent}}}
	for _, step := range []struct {
		sent *string
		now  string
		want bool
	}{{nil, first, false}, {&first, first, true}, {&first, second, false}, {&second, second, true}} {
		reached.sentClient.Store(step.sent)
		if got := p.Announced(step.now); got != step.want {
			t.Errorf("%+v: %v", step, got)
		}
	}
}

// listed is a member that knows a list.
type listed struct {
	Member
	list *membership.List
}

func (l *listed) Header(uint64, bool) *peerpb.Header { return nil }

func (l *listed) Admitted() *membership.List { return l.list }

// The addresses of senders that are no members any more are forgotten.
func TestAddressesOfOutsidersAreForgotten(t *testing.T) {
	conf := membership.Conf{Voters: []uint64{1, 2}}
	self := &listed{list: membership.NewList(conf, membership.Conf{}, nil)}
	p := New(self, 1, nil, slog.New(slog.DiscardHandler))
	p.Learn(2, "b:1")
	p.Learn(3, "c:1")
	if p.AddressOf(2) != "b:1" || p.AddressOf(3) != "c:1" {
		t.Fatal("an address is not learned")
	}
	p.Update(conf)
	if p.AddressOf(2) != "b:1" || p.AddressOf(3) != "" || len(p.learned) != 1 {
		t.Errorf("afterwards %v is known", p.learned)
	}
	for id := range uint64(2 * membership.MaxMembers) {
		p.Learn(10+id, "x:1")
	}
	if len(p.learned) > membership.MaxMembers {
		t.Errorf("%d addresses are kept", len(p.learned))
	}
}

// drained is a network that takes whole snapshots.
type drained struct {
	Network
	err error
}

func (d drained) Snapshot(_ context.Context, _ string, _ *peerpb.Header, next func() (*peerpb.Chunk, error)) error {
	for {
		if _, err := next(); errors.Is(err, io.EOF) {
			return d.err
		} else if err != nil {
			return err
		}
	}
}

// A snapshot goes to a member whose address is known, and how it ended is reported once.
func TestSendSnapshot(t *testing.T) {
	for _, want := range []error{nil, errors.New("refused")} {
		p := New(&listed{}, 1, drained{err: want}, slog.New(slog.DiscardHandler))
		left, ends := 3, 0
		next := func(context.Context) (*peerpb.Chunk, error) {
			if left--; left < 0 {
				return nil, io.EOF
			}
			return &peerpb.Chunk{}, nil
		}
		done := func(err error) {
			if ends++; !errors.Is(err, want) {
				t.Errorf("it ended with %v", err)
			}
		}
		if p.SendSnapshot(2, next, done) {
			t.Error("sent to an unknown address")
		}
		p.Learn(2, "b:1")
		if !p.SendSnapshot(2, next, done) {
			t.Error("not sent")
		}
		p.Close()
		if ends != 1 || left != -1 {
			t.Errorf("%d ends, %d chunks left", ends, left)
		}
	}
}

// hanging is a network on which nobody answers a dial.
type hanging struct {
	Network
	dials chan string
}

func (n hanging) Messages(ctx context.Context, address string, _ *peerpb.Header) (Stream, error) {
	n.dials <- address
	<-ctx.Done()
	return nil, ctx.Err()
}

// headed is a member with a header.
type headed struct{ listed }

func (headed) Header(uint64, bool) *peerpb.Header { return &peerpb.Header{} }

// A member that was started anew at another address calls, while this one still dials the old address. Both lanes dial
// at once, and not when the dial is given up. A dial that has just begun goes on, and so does one to another member.
func TestCallersAreDialedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf := membership.Conf{Voters: []uint64{1, 2}, Members: []membership.Record{{ID: 1}, {ID: 2, Peer: "b:1"}}}
		network := hanging{dials: make(chan string, 10)}
		p := New(&headed{listed{list: membership.NewList(conf, membership.Conf{}, nil)}}, 1, network,
			slog.New(slog.DiscardHandler))
		defer p.Close()
		p.Update(conf)
		for _, step := range []struct {
			after  time.Duration
			caller uint64
			dials  int
		}{{0, 2, 2}, {dialHangs, 3, 2}, {0, 2, 4}, {0, 2, 4}, {dialHangs, 2, 6}} {
			time.Sleep(step.after)
			synctest.Wait()
			p.Learn(step.caller, "b:1")
			synctest.Wait()
			if got := len(network.dials); got != step.dials {
				t.Fatalf("%+v: %d dials", step, got)
			}
		}
	})
}
