package raftstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/roster"
)

// TestQuestionsOfMembers asks a member over the connections between members. It answers members of the present cluster
// that speak the same protocol, knows which one asks, and refuses everybody else before it looks at the question.
func TestQuestionsOfMembers(t *testing.T) {
	t.Parallel()
	own := newPeerTLS(t)
	c := preparedGRPCCluster(t, 3, own)
	for _, name := range c.names {
		services := new(peers.Services)
		peers.Answer(services, func(ctx context.Context, q *peerpb.Row) (*peerpb.Member, error) {
			return &peerpb.Member{Id: peers.Caller(ctx), Name: string(q.GetKey())}, nil
		})
		c.configure(name, func(cfg *Config) { cfg.Cluster.Services = services })
	}
	c.startAll()
	m := c.leader()
	c.waitPublished(m)
	s, other := m.store, c.nodes[others(c.names, m.name)[0]].store
	for _, urgent := range []bool{true, false} {
		answer := &peerpb.Member{}
		c.poll("a connection", func() bool { return other.Peers.Conn(s.Member(), urgent) != nil })
		err := peers.Ask(testContext(t), other.Peers.Conn(s.Member(), urgent), &peerpb.Row{Key: []byte("x")}, answer)
		if err != nil || answer.GetId() != other.Member() || answer.GetName() != "x" {
			t.Errorf("a member was answered %v, %v", answer, err)
		}
	}
	err := peers.Ask(testContext(t), other.Peers.Conn(s.Member(), false), &peerpb.Frame{}, &peerpb.Member{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a question that nobody registered: %v", err)
	}
	if err := peers.Ask(testContext(t), nil, &peerpb.Row{}, &peerpb.Member{}); err != peers.ErrNotConnected {
		t.Errorf("without a connection: %v", err)
	}
	type header = peerpb.Header
	for name, tc := range map[string]struct {
		change func(h *header)
		code   codes.Code
		text   string
	}{
		"a stranger":                {func(h *header) { h.From++ }, codes.Unavailable, "does not know the caller"},
		"another certificate":       {nil, codes.Unauthenticated, "not made for the host"},
		"another cluster":           {func(h *header) { h.Cluster++ }, codes.FailedPrecondition, "belongs to cluster"},
		"an earlier life":           {func(h *header) { h.Incarnation++ }, codes.DataLoss, "earlier data directory"},
		"an older protocol":         {func(h *header) { h.Format-- }, codes.Unknown, "run the same release"},
		"a server without a header": {func(h *header) { h.Reset() }, codes.Unknown, "run the same release"},
	} {
		h, side := endpointOf(other).Header(s.Member(), false), own
		if tc.change != nil {
			tc.change(h)
		} else {
			side = forStranger(t, own)
		}
		out, err := (&peers.GRPC{TLS: side}).Messages(testContext(t), s.cfg.Cluster.address(), h)
		if err != nil {
			t.Fatal(err)
		}
		answer := &peerpb.Member{}
		err = peers.Ask(testContext(t), out.Conn(), &peerpb.Row{}, answer)
		if status.Code(err) != tc.code || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s was answered %v, %v", name, answer, err)
		}
		stream, err := peers.Open[peerpb.Row, peerpb.Row](testContext(t), out.Conn(), "x")
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != tc.code {
			t.Errorf("a stream of %s ended with %v", name, err)
		}
		out.Close()
	}
	c.settle()
}

// A member that has yet to ask who is a member answers no questions.
func TestQuestionsBeforeAdmission(t *testing.T) {
	w := newEmptiedWorld(t, 1)
	w.start()
	defer w.end()
	h := w.b.headerOf(true)
	for _, open := range []bool{true, false} {
		if !open {
			w.b.Peers.roster.Ask()
			w.b.Peers.roster.Shut()
		}
		for _, messages := range []bool{true, false} {
			err := endpointOf(w.b).Judge(h, nil, messages)
			refused := errors.Is(err, roster.ErrNotAsked)
			if refused != (!open && !messages) || err != nil && !refused {
				t.Errorf("open %v, messages %v: %v", open, messages, err)
			}
		}
	}
	alone := open(t, Config{InMemory: true, Logger: noLog})
	defer stop(t, alone)
	if alone.Peers.Conn(1, false) != nil {
		t.Error("a server alone is connected")
	}
}
