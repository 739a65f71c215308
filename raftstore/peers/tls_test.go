package peers

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// onlyMembers is a receiving end that lets nobody call once err is set.
type onlyMembers struct {
	Server
	list *membership.List
	err  error
}

func (o *onlyMembers) Admitted() *membership.List { return o.list }

func (o *onlyMembers) Judge(*peerpb.Header, *x509.Certificate, bool) error { return o.err }

// silentStream is a stream on which empty messages come.
type silentStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silentStream) Context() context.Context { return s.ctx }
func (s silentStream) RecvMsg(any) error        { return nil }

var errNotMember = errors.New("no member")

// A removed server's calls for clients end with its membership.
func TestGuardedStreamEnds(t *testing.T) {
	in := &onlyMembers{list: &membership.List{}}
	ctx := WithCaller(t.Context(), &peerpb.Header{})
	g := &memberStream{ServerStream: silentStream{ctx: ctx}, in: in, judged: in.list}
	if err := g.RecvMsg(nil); err != nil {
		t.Error(err)
	}
	in.list, in.err = &membership.List{}, errNotMember
	if err := g.RecvMsg(nil); !errors.Is(err, errNotMember) {
		t.Errorf("after the removal: %v", err)
	}
}
