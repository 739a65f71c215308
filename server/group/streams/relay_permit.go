package streams

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/group/relaypb"
)

// This file asks for and grants permits over the connection of the heartbeats. They come over the relay as well, but
// there one may wait behind a large answer for longer than it lasts. A permit is tied to its relay nevertheless: the
// request names it, the leader grants only for a relay that it holds and that moves, and the follower drops the permit
// with the relay. So the sessions behind a relay still count as detached relayLease after its loss: every permit was
// asked for before that.

// askForPermit asks for permits until ctx is done, over the connection that connect returns.
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

// askOver asks for permits every renewInterval until the connection breaks.
func (r *Relay) askOver(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	permit, err := peers.Open[relaypb.PermitRequest, relaypb.PermitGrant](ctx, conn, permitStream)
	if err != nil {
		return err
	}
	broken, dropped := make(chan error, 1), make(chan uint64)
	go func() { // ends with ctx
		for {
			grant, err := permit.Recv()
			if err != nil {
				broken <- err
				return
			}
			if !grant.GetDrop() {
				r.granted(grant.GetRenewed())
				continue
			}
			select {
			case dropped <- r.drop():
			case <-ctx.Done():
			}
		}
	}()
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for request := r.permitRequest(); ; {
		if err := permit.Send(request); err != nil {
			cancel()        // the reader may wait to pass on a drop
			return <-broken // the reason
		}
		select {
		case <-ticker.C:
			request = r.permitRequest()
		case number := <-dropped:
			request = &relaypb.PermitRequest{Relay: request.GetRelay(), Dropped: number}
		case err := <-broken:
			return err
		}
	}
}

// permitRequest returns a request for a permit that counts from now.
func (r *Relay) permitRequest() *relaypb.PermitRequest {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return &relaypb.PermitRequest{Relay: r.hello(), Renew: r.ask()}
}

// ask returns the number of a new request, for a permit that counts from now. The mutex is held.
func (r *Relay) ask() uint64 {
	r.renewal++
	r.asked[r.renewal] = moment{r.shell.Now(), r.shell.TimeOfDay()}
	return r.renewal
}

// Register registers the streams that other servers open.
func (r *Peers) Register(services *peers.Services) {
	peers.Serve(services, relayStream, r.Exchange)
	peers.Serve(services, permitStream, r.GivePermit)
}

// GivePermit grants permits to one other server, and asks it to drop them when this server hands over.
func (r *Peers) GivePermit(from uint64,
	rpc grpc.BidiStreamingServer[relaypb.PermitRequest, relaypb.PermitGrant]) error {
	asked, broken := make(chan *relaypb.PermitRequest), make(chan error, 1)
	go func() { // ends with the RPC
		for {
			request, err := rpc.Recv()
			if err != nil {
				broken <- err
				return
			}
			select {
			case asked <- request:
			case <-rpc.Context().Done():
			}
		}
	}()
	var relay *relaypb.Hello // of the last request
	for hushed := r.whenHushed(); ; {
		request := new(relaypb.PermitRequest)
		select {
		case err := <-broken:
			return err
		case request = <-asked:
			relay = request.GetRelay()
		case <-hushed: // it drops its permit now, and not when it asks again
			hushed = r.whenHushed()
		}
		p := r.find(from, relay)
		if p == nil {
			continue // it asks again
		}
		if grant := p.answer(request); grant != nil {
			if err := rpc.Send(grant); err != nil {
				return err
			}
		}
	}
}

// answer grants a permit if something came over the relay lately and this server may speak itself. A leader that hands
// over asks the other server to drop its permits until that reports it.
func (p *Peer) answer(request *relaypb.PermitRequest) *relaypb.PermitGrant {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	number, dropped := request.GetRenew(), request.GetDropped()
	if dropped != 0 && dropped >= p.granted { // otherwise permits were given since
		p.given = 0
	}
	switch moves := p.peers.shell.Now()-p.heard <= coordination.Instant(relayLease); {
	case p.peers.core.IsQuiet() && p.given != 0:
		return &relaypb.PermitGrant{Drop: true}
	case number != 0 && moves && p.grant(number):
		return &relaypb.PermitGrant{Renewed: number}
	}
	return nil
}

// grant gives the permit that a request asks for, if it may be given, and reports whether it is. The mutex is held.
func (p *Peer) grant(number uint64) bool {
	if p.lost || !p.peers.streams.grants(p.link) {
		return false
	}
	p.given, p.granted = p.peers.shell.Now(), max(p.granted, number)
	return true
}

// drop gives up the permit, and those that are on their way. It returns the number of the last request.
func (r *Relay) drop() uint64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	clear(r.asked)
	r.permit.Store(0)
	return r.renewal
}
