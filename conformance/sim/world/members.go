package world

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/adminpb"
)

// administratorHost is where administrators call from. Their connections are cut by nothing.
const administratorHost = "10.0.2.1"

// callPatience bounds one call of an administrator, changePatience all attempts to make a change.
const (
	callPatience   = 5 * time.Second
	changePatience = 12 * time.Second
)

// administer makes a call on a server's socket.
func (w *World) administer(ctx context.Context, s *server,
	call func(context.Context, adminpb.ClusterClient) error) error {
	conn, err := grpc.NewClient("passthrough:///"+s.socketAddress(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return w.net.Dial(ctx, administratorHost, address)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	return call(ctx, adminpb.NewClusterClient(conn))
}

// insist makes a call on one server after the other, beginning with one, until it succeeds or is refused for good.
func (w *World) insist(ctx context.Context, first int, call func(context.Context, adminpb.ClusterClient) error,
	final ...codes.Code) error {
	for i := first; ; i++ {
		err := w.administer(ctx, w.servers[i%len(w.servers)], call)
		w.trace.Note("administrator at %s: %v", w.servers[i%len(w.servers)].name, err)
		for _, code := range append(final, codes.OK) {
			if status.Code(err) == code {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// remove removes a server from the members.
func (w *World) remove(ctx context.Context, s *server, by int) error {
	w.do(func() { s.removing, s.member = true, unsure })
	err := w.insist(ctx, by, func(ctx context.Context, c adminpb.ClusterClient) error {
		_, err := c.Remove(ctx, &adminpb.RemoveMemberRequest{Member: s.name})
		return err
	}, codes.NotFound, codes.FailedPrecondition)
	switch status.Code(err) {
	case codes.OK, codes.NotFound:
		w.do(func() { s.member = absent; w.disturb() })
		err = nil
	case codes.FailedPrecondition: // it would cost the quorum
		w.do(func() { s.member = present })
	}
	return w.changed("remove", s, err)
}

// add makes a server that has lost its place, or never had one, a member with an empty directory.
func (w *World) add(ctx context.Context, s *server, by int) error {
	if err := w.remove(ctx, s, by); err != nil {
		return err
	}
	var err error
	w.do(func() {
		if s.life != nil {
			w.bury(s.life, true)
		}
		err = s.disk.Empty(s.nextDir())
		s.first, s.ruined, s.rotten, s.has = false, "", false, memory{}
		s.member, s.version = unsure, 0
	})
	if err != nil {
		return err
	}
	err = w.insist(ctx, by, func(ctx context.Context, c adminpb.ClusterClient) error {
		_, err := c.Add(ctx, &adminpb.AddMemberRequest{Name: s.name, PeerAddress: s.peerAddress()})
		return err
	}, codes.AlreadyExists)
	w.do(func() {
		if err == nil || status.Code(err) == codes.AlreadyExists {
			s.member = present
		}
		w.bootIfDown(s)
	})
	return w.changed("add", s, err)
}

// promote gives a learner a vote.
func (w *World) promote(ctx context.Context, s *server, by int) error {
	err := w.insist(ctx, by, func(ctx context.Context, c adminpb.ClusterClient) error {
		_, err := c.Promote(ctx, &adminpb.PromoteMemberRequest{Member: s.name, Wait: true})
		return err
	}, codes.NotFound)
	return w.changed("promote", s, err)
}

// transfer asks the leader to hand over.
func (w *World) transfer(ctx context.Context, s *server) error {
	var err error
	for i := range w.servers {
		err = w.administer(ctx, w.servers[(s.index+i)%len(w.servers)],
			func(ctx context.Context, c adminpb.ClusterClient) error {
				_, err := c.TransferLeader(ctx, &adminpb.TransferLeaderRequest{To: s.name})
				return err
			})
		if status.Code(err) != codes.Unavailable {
			break
		}
	}
	return w.changed("transfer to", s, err)
}

// changed takes the outcome of a change.
func (w *World) changed(what string, s *server, err error) error {
	w.note("%s %s: %v", what, s.name, err)
	if err == nil {
		w.do(func() { w.counts["done: "+what]++ })
	}
	return err
}

// change makes a change that concerns a server, in the background, once the changes before it that concern the same
// server are over. Two administrators at once would empty a directory that the other one has just counted as a voter's.
// A fault that has not begun when the world is healed never does. The lock is held.
func (w *World) change(s *server, f func(ctx context.Context) error) {
	before, over, asked := s.changed, make(chan struct{}), w.healed
	s.changed = over
	go func() {
		defer close(over)
		if before != nil {
			<-before
		}
		late := false
		if w.do(func() { late = w.healed != asked }); late {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), changePatience)
		defer cancel()
		_ = f(ctx) // it is in the trace, and what counts is whether the cluster goes on
	}()
}
