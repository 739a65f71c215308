package raftstore

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

const peerStrangersMax = 32 // connections to a peer port without a certificate; see package peers

// TestLargeMessageOfAStranger has somebody with a certificate of the authority, which is no member's, send a
// message of 32 MiB: he gets no answer, the member keeps less than that of it, and members go on.
func TestLargeMessageOfAStranger(t *testing.T) {
	t.Parallel()
	own := newPeerTLS(t)
	c := newGRPCCluster(t, 3, own)
	c.put("before")
	c.settle()
	address := c.leader().store.cfg.Cluster.address()
	stranger := &peers.GRPC{TLS: forStranger(t, own)}
	large := new(peerpb.HelloRequest)
	large.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 100, protowire.BytesType),
		make([]byte, 32<<20)))
	if _, err := stranger.Hello(testContext(t), address, large); err == nil ||
		!strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("a large message of a stranger: %v", err)
	}
	if _, err := stranger.Hello(testContext(t), address, &peerpb.HelloRequest{}); err == nil ||
		strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("a small message of a stranger: %v", err)
	}
	c.put("after")
	c.settle()
}

// TestPeerPortIsCrowded has strangers connect to a member's port all the time, more than there is room for:
// another member comes back beside them, and the store knows that there are too many.
func TestPeerPortIsCrowded(t *testing.T) {
	t.Parallel()
	own := newPeerTLS(t)
	c := newGRPCCluster(t, 3, own)
	c.put("before")
	c.settle()
	m := c.leader()
	address := m.store.cfg.Cluster.address()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	crowded := make(chan struct{})
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(ctx,
				"tcp", address)
			if err != nil {
				continue
			}
			defer conn.Close()
			if i == 4*peerStrangersMax {
				close(crowded)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	<-crowded
	c.wait("the member to notice", func() bool { return !m.store.Peers.Crowded().IsZero() })
	name := others(c.names, m.name)[0]
	c.kill(name)
	c.put("meanwhile")
	c.start(name)
	c.put("after")
	c.settle()
	if _, err := (&peers.GRPC{TLS: own}).Hello(testContext(t), address, &peerpb.HelloRequest{}); err != nil {
		t.Errorf("a member's question beside a crowd: %v", err)
	}
}
