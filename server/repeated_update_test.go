package server

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
)

// loss loses a question between servers, or its answer, with everything that follows on their connection until that
// breaks. What goes over other connections passes: raft's entries, for example.
type loss struct {
	mutex    sync.Mutex
	question string // part of it; empty while nothing is to be lost
	answer   string // part of the answer to lose; empty: the question is lost
	conn     *lossyConn
	lost     bool
}

type lossyConn struct {
	net.Conn
	loss *loss
}

func (l *loss) dial(ctx context.Context, to string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	return &lossyConn{conn, l}, nil
}

func (l *loss) next(question, answer string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.question, l.answer, l.conn, l.lost = question, answer, nil, false
}

// seen reports whether the question came to a connection, and whether what was to be lost is lost.
func (l *loss) seen() (asked, lost bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.conn != nil, l.lost
}

// end breaks the connection.
func (l *loss) end() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// Read implements net.Conn.
func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for err == nil && c.loses(b[:n]) {
		n, err = c.Conn.Read(b)
	}
	return n, err
}

// loses reports whether data that was read is lost.
func (c *lossyConn) loses(data []byte) bool {
	l := c.loss
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.conn == c && bytes.Contains(data, []byte(l.answer)) {
		l.lost = true
	}
	return l.conn == c
}

// Write implements net.Conn.
func (c *lossyConn) Write(b []byte) (int, error) {
	l := c.loss
	l.mutex.Lock()
	if l.question != "" && bytes.Contains(b, []byte(l.question)) {
		l.question, l.conn = "", c
		l.lost = l.answer == ""
	}
	drop := l.conn == c && l.answer == ""
	l.mutex.Unlock()
	if drop {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestUpdateIsRepeatedToTheNextLeader: an update of a version whose question or answer is lost between the asked server
// and the leader, which has changed when the connection breaks, is executed once and answered as it ended.
func TestUpdateIsRepeatedToTheNextLeader(t *testing.T) {
	network := new(loss)
	c := startClusterWith(t, 3, func(config *Config) { config.Cluster.Dial = network.dial })
	t.Cleanup(network.end)
	c.awaitFormat(codec.Version)
	leader, _ := c.leader()
	c.createNode(leader, testNode)
	c.race(0, 0)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for round, lost := range []struct{ answer, stale bool }{{true, false}, {false, false}, {true, true}} {
		leader, _ := c.leader()
		asked := (leader + 1 + random.IntN(2)) % 3
		before := c.present(asked)
		want, data, code := before.GetVersion()+1, fmt.Sprint("data of round ", round), codes.OK
		request := &adminpb.UpdateDataRequest{Path: testNode, Name: []byte("settings"), Data: []byte(data),
			Expected: before.GetVersion()}
		if lost.stale {
			request.Expected--
			want, data, code = before.GetVersion(), string(before.GetData()), codes.Aborted
		}
		switch {
		case lost.stale:
			network.next(string(request.GetData()), "was expected")
		case lost.answer:
			network.next(string(request.GetData()), "the success has no text")
		default:
			network.next(string(request.GetData()), "")
		}
		ended := make(chan error, 1)
		go func() {
			_, err := adminpb.NewInspectClient(c.conns[asked]).UpdateData(t.Context(), request)
			ended <- err
		}()
		c.eventually("the loss", func() bool {
			asked, seen := network.seen()
			return seen || asked && lost.answer && !lost.stale && c.present(leader).GetVersion() == want
		})
		c.leadWith(3 - leader - asked)
		network.end()
		if err := <-ended; status.Code(err) != code {
			t.Errorf("seed %d, round %d: the update ends with %v, want %v", seed, round, err, code)
		}
		for i := range c.conns {
			if v := c.present(i); v.GetVersion() != want || string(v.GetData()) != data {
				t.Errorf("seed %d, round %d: server %d shows %v, want %q of version %d", seed, round, i, v, data, want)
			}
		}
	}
}
