package group

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/group/streams"
)

// TestPermitOverTheHeartbeats asks for a permit over the connection of the heartbeats of a cluster, and gets
// it there.
func TestPermitOverTheHeartbeats(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	f := c.groups[follower]
	openSession(t, f, 60_000)
	eventually(t, "a permit over the connection of the heartbeats", func() bool {
		conn := f.store.Peers.Conn(c.groups[leader].store.Member(), true)
		var relay *streams.RelayEnd
		for end := range f.Still().Sent {
			if end.ToLeader && end.Process != 0 {
				relay = &end
			}
		}
		if relay == nil || conn == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		permit, err := peers.Open[relaypb.PermitRequest, relaypb.PermitGrant](ctx, conn, "permit")
		if err != nil {
			return false
		}
		_ = permit.Send(&relaypb.PermitRequest{Relay: &relaypb.Hello{Process: relay.Process,
			Number: relay.Number}, Renew: 1 << 40})
		grant, err := permit.Recv()
		return err == nil && grant.GetRenewed() == 1<<40
	})
}

// A name that cannot be encoded ends its own stream. The relay that all streams of the server share goes on.
func TestNameThatCannotBeEncoded(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	good := openSession(t, c.groups[follower], 600_000)
	opened := c.groups[follower].Figures().RelaysOpened
	for name, caller := range map[string]streams.Caller{
		"subject":  {Caller: coordination.Caller{Subject: "m\xfcller"}},
		"identity": {Identity: coordination.Identity{Kind: coordination.IdentityToken, Subject: "m\xfcller"}},
	} {
		bad := openStreamOf(t, c.groups[follower], caller)
		bad.start(testNode.String(), 600_000)
		if r := bad.next(t); r.Kind != coordination.ReplyFailure {
			t.Errorf("%s: %+v", name, r)
		}
	}
	bad := openSession(t, c.groups[follower], 600_000)
	bad.ask(1, &coordination.Request{Kind: coordination.RequestRelease, Name: "m\xfcller"})
	if r := bad.next(t); r.Kind != coordination.ReplyFailure {
		t.Errorf("name of a semaphore: %+v", r)
	}
	good.ask(1, &coordination.Request{Kind: coordination.RequestRelease, Name: "x"})
	if r := good.next(t); r.Kind != coordination.ReplyResult {
		t.Errorf("another client reads %+v", r)
	}
	if now := c.groups[follower].Figures().RelaysOpened; now != opened {
		t.Errorf("the relay was opened %d times meanwhile", now-opened)
	}
}
