package raftstore

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// lateConn is a connection on which nothing comes for a while, as from a server that gets no processor.
type lateConn struct {
	net.Conn
	wait func() // before the first byte is read
}

// Read implements net.Conn.
func (c *lateConn) Read(b []byte) (int, error) {
	c.wait()
	return c.Conn.Read(b)
}

// TestLateHandshake connects to a member that answers, but not within a second.
func TestLateHandshake(t *testing.T) {
	t.Parallel()
	const late = 1500 * time.Millisecond // half of what either side waits
	own := newPeerTLS(t)
	c := newGRPCCluster(t, 3, own)
	address := c.leader().store.cfg.Cluster.address()
	n := &peers.GRPC{TLS: own, Dialer: func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &lateConn{conn, sync.OnceFunc(func() { time.Sleep(late) })}, nil
	}}
	if _, err := n.Hello(testContext(t), address, &peerpb.HelloRequest{}); err != nil {
		t.Errorf("a handshake of %v: %v", late, err)
	}
}
