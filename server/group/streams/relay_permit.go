package streams

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/group/relaypb"
)

// This file is permits that travel apart from data. A relay gives a permit, too, but there it may wait behind
// a large answer for longer than a permit lasts. On the connection of the heartbeats it waits behind nothing
// large. It is tied to its relay nevertheless: it names it, the leader gives none for a relay that it does
// not hold or that does not move, and the follower drops it with the relay. So the leader goes on to count
// the sessions behind a relay as detached relayLease after the loss: whatever permit it gave was asked for
// before that.

// askForPermit asks for a permit until ctx is done, over the connection that connect finds.
func (r *Relay) askForPermit(ctx context.Context, connect func() *grpc.ClientConn) {
	for ctx.Err() == nil {
		if conn := connect(); conn != nil {
			_ = r.askOver(ctx, conn)
		}
		select {
		case <-ctx.Done():
		case <-time.After(relayRetry):
		}
	}
}

// askOver asks for a permit until the connection breaks.
func (r *Relay) askOver(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	permit, err := peers.Open[relaypb.PermitRequest, relaypb.PermitGrant](ctx, conn, permitStream)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	go func() { // ends with ctx
		for {
			grant, err := permit.Recv()
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
		if err := permit.Send(r.permitRequest()); err != nil {
			return <-broken // which says why
		}
		select {
		case <-ticker.C:
		case err := <-broken:
			return err
		}
	}
}

// permitRequest asks now.
func (r *Relay) permitRequest() *relaypb.PermitRequest {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return &relaypb.PermitRequest{Relay: r.hello(), Renew: r.ask()}
}

// ask returns the number of a request for a permit that is made now. The mutex is held.
func (r *Relay) ask() uint64 {
	r.renewal++
	r.asked[r.renewal] = moment{r.clock.Now(), r.clock.TimeOfDay()}
	return r.renewal
}

// Register registers the streams that other servers open.
func (r *Peers) Register(services *peers.Services) {
	peers.Serve(services, relayStream, r.Exchange)
	peers.Serve(services, permitStream, r.GivePermit)
}

// GivePermit serves what one other server asks.
func (r *Peers) GivePermit(from uint64,
	rpc grpc.BidiStreamingServer[relaypb.PermitRequest, relaypb.PermitGrant]) error {
	for {
		request, err := rpc.Recv()
		if err != nil {
			return err
		}
		if p := r.find(from, request.GetRelay()); p == nil || !p.givesPermit() {
			continue // it asks again
		}
		if err := rpc.Send(&relaypb.PermitGrant{Renewed: request.GetRenew()}); err != nil {
			return err
		}
	}
}

// givesPermit reports whether the leader holds the relay, hears of it, and may speak itself.
func (p *Peer) givesPermit() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	moves := p.peers.clock.Now()-p.heard <= coordination.Instant(relayLease)
	return moves && !p.lost && p.peers.streams.grants(p.link)
}
