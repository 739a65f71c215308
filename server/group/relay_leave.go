package group

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/relaypb"
)

// This file is leave that travels apart from data. A relay gives leave, too, but there it may wait behind a large answer
// for longer than leave lasts. On the connection of the heartbeats it waits behind nothing large. It is tied to its relay
// nevertheless: it names it, the leader gives none for a relay that it does not hold or that does not move, and the
// follower drops it with the relay. So the leader goes on to count the sessions behind a relay as detached relayLease after
// the loss: whatever leave it gave was asked for before that.

// askForLeave asks for leave until ctx is done, over the connection that connect finds. A leader that does not know the
// question gives leave over the relay alone.
func (r *relay) askForLeave(ctx context.Context, connect func() *grpc.ClientConn) {
	for ctx.Err() == nil {
		if conn := connect(); conn != nil && status.Code(r.askOver(ctx, conn)) == codes.Unimplemented {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(relayRetry):
		}
	}
}

// askOver asks for leave until the connection breaks.
func (r *relay) askOver(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leave, err := relaypb.NewRelayClient(conn).Leave(ctx)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	go func() { // ends with ctx
		for {
			grant, err := leave.Recv()
			if err != nil {
				broken <- err
				return
			}
			r.granted(grant.GetRenewed())
		}
	}()
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		if err := leave.Send(r.leaveRequest()); err != nil {
			return <-broken // which says why
		}
		select {
		case <-ticker.C:
		case err := <-broken:
			return err
		}
	}
}

// leaveRequest asks now.
func (r *relay) leaveRequest() *relaypb.LeaveRequest {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return &relaypb.LeaveRequest{Relay: r.hello(), Renew: r.ask()}
}

// ask returns the number of a request for leave that is made now. The mutex is held.
func (r *relay) ask() uint64 {
	r.renewal++
	r.asked[r.renewal] = moment{r.clock.Now(), r.clock.timeOfDay()}
	return r.renewal
}

// giveLeave serves what one other server asks.
func (g *Group) giveLeave(rpc relaypb.Relay_LeaveServer) error {
	for {
		request, err := rpc.Recv()
		if err != nil {
			return err
		}
		if p := g.relays.find(request.GetRelay()); p == nil || !p.givesLeave() {
			continue // it asks again
		}
		if err := rpc.Send(&relaypb.LeaveGrant{Renewed: request.GetRenew()}); err != nil {
			return err
		}
	}
}

// givesLeave reports whether the leader holds the relay, hears of it, and may speak itself.
func (p *relayPeer) givesLeave() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	moves := p.group.shell.Now()-p.heard <= coordination.Instant(relayLease)
	return moves && !p.lost && p.link.maySpeak() && p.group.streams.localLink() == p.link
}
