package openloop

import (
	"encoding/binary"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/protoadapt"
)

// Etcd opens sessions of an etcd server, whose locks are keys of a lease: an acquire is a transaction that puts the key
// unless it is there, a release deletes it, as etcd's own client does where nobody else wants the lock. Each is a call
// on a stream of its own. The lease has to last for the whole run.
func Etcd(lease int64) Protocol {
	return func(c *Client, address, prefix string, sessions, connections int) error {
		conns := make([]*etcdConn, connections)
		for i := range conns {
			n, err := dialHTTP2(address)
			if err != nil {
				return err
			}
			conns[i] = &etcdConn{conn: n, client: c}
			n.data = func(uint32, []byte) error { return nil }
			n.moreWindow = func(uint32, int64) {}
			n.ended = conns[i].answer
			c.read(n.net, n.read)
		}
		for i := range sessions {
			s := &etcdSession{conn: conns[i%connections]}
			if err := s.encode(address, fmt.Sprint(prefix, "-", i), lease); err != nil {
				return err
			}
			c.sessions = append(c.sessions, s)
		}
		return nil
	}
}

// etcdConn is a connection. Stream 2n+1 has its n-th request.
type etcdConn struct {
	*conn
	client *Client
	mutex  sync.Mutex
	sent   []int
}

// answer handles the end of a call. One that etcd does not carry out, as it is too much or the leader moves, stays
// unanswered.
func (n *etcdConn) answer(stream uint32, f *http2.MetaHeadersFrame) error {
	for _, field := range f.Fields {
		switch {
		case field.Name == "grpc-status" && field.Value == "0":
			n.mutex.Lock()
			request := n.sent[stream/2]
			n.mutex.Unlock()
			n.client.answered(request)
			return nil
		case field.Value == "etcdserver: too many requests", field.Value == "raft proposal dropped",
			field.Value == "etcdserver: request timed out":
			return nil
		}
	}
	return fmt.Errorf("etcd answered %v", f.Fields)
}

// etcdSession has the frames of an acquire and a release: headers, and behind them the message.
type etcdSession struct {
	conn   *etcdConn
	sent   int
	frames [2][]byte
	second [2]int // the place of the message's frame
}

func (s *etcdSession) encode(address, name string, lease int64) error {
	key := []byte(name)
	for i, call := range []struct {
		method string
		m      protoadapt.MessageV1
	}{
		{"Txn", &etcdserverpb.TxnRequest{
			Compare: []*etcdserverpb.Compare{{Key: key, Target: etcdserverpb.Compare_CREATE,
				TargetUnion: &etcdserverpb.Compare_CreateRevision{}}},
			Success: []*etcdserverpb.RequestOp{{Request: &etcdserverpb.RequestOp_RequestPut{
				RequestPut: &etcdserverpb.PutRequest{Key: key, Lease: lease}}}}}},
		{"DeleteRange", &etcdserverpb.DeleteRangeRequest{Key: key}},
	} {
		head, err := headers(address, "/etcdserverpb.KV/"+call.method)
		if err != nil {
			return err
		}
		message, err := dataFrame(0, http2.FlagDataEndStream, protoadapt.MessageV2Of(call.m))
		if err != nil {
			return err
		}
		s.frames[i] = frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, head)
		s.second[i] = len(s.frames[i])
		s.frames[i] = append(s.frames[i], message...)
	}
	return nil
}

// send implements session.
func (s *etcdSession) send(request int) error {
	kind := s.sent % 2
	s.sent++
	s.conn.mutex.Lock()
	stream := uint32(2*len(s.conn.sent) + 1)
	s.conn.sent = append(s.conn.sent, request)
	s.conn.mutex.Unlock()
	f, second := s.frames[kind], s.second[kind]
	binary.BigEndian.PutUint32(f[frameHead-4:], stream)
	binary.BigEndian.PutUint32(f[second+frameHead-4:], stream)
	return s.conn.write(f, int64(len(f)-second-frameHead))
}
