package openloop

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// ZooKeeper's operations, and the flag of a znode that ends with its session.
const (
	zooCreate, zooDelete = 1, 2
	zooEphemeral         = 1
)

// ZooKeeper opens sessions of a ZooKeeper, each on a connection of its own, whose locks are ephemeral znodes below the
// root. Answers come in the order of the requests.
func ZooKeeper(c *Client, address, prefix string, sessions, _ int) error {
	for i := range sessions {
		to, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		s := &zooSession{Conn: to, client: c}
		if err := s.begin(); err != nil {
			return err
		}
		path := fmt.Sprint("/", prefix, "-", i)
		create := zooString(zooString(zooInts(nil, 0, zooCreate), path), "")     // without data
		create = zooString(zooString(zooInts(create, 1, 31), "world"), "anyone") // may do everything
		s.requests = [2][]byte{zooPacket(zooInts(create, zooEphemeral)),
			zooPacket(zooInts(zooString(zooInts(nil, 0, zooDelete), path), -1))}
		c.read(to, s.read)
		c.sessions = append(c.sessions, s)
	}
	return nil
}

func zooInts(b []byte, all ...int32) []byte {
	for _, n := range all {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func zooString(b []byte, s string) []byte { return append(zooInts(b, int32(len(s))), s...) }

func zooPacket(b []byte) []byte { return append(zooInts(nil, int32(len(b))), b...) }

type zooSession struct {
	net.Conn
	client *Client
	unanswered
	sent     int
	requests [2][]byte
}

// begin begins the session: protocol 0, no transaction seen, the timeout, session 0, and a password of 16 bytes.
func (s *zooSession) begin() error {
	hello := zooInts(nil, 0, 0, 0, lockMillis, 0, 0, 16)
	if _, err := s.Write(zooPacket(append(hello, make([]byte, 16)...))); err != nil {
		return err
	}
	_, err := zooRead(s)
	return err
}

func zooRead(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(from, b)
	return b, err
}

// read reads until the connection ends.
func (s *zooSession) read() error {
	for from := bufio.NewReader(s); ; {
		b, err := zooRead(from) // id, transaction, error
		if err != nil {
			return err
		}
		if len(b) < 16 || binary.BigEndian.Uint32(b[12:]) != 0 {
			return fmt.Errorf("ZooKeeper answered %x", b)
		}
		request, err := s.first()
		if err != nil {
			return err
		}
		s.client.answered(request)
	}
}

// send implements session.
func (s *zooSession) send(request int) error {
	s.add(request)
	_, err := s.Write(s.requests[s.sent%2])
	s.sent++
	return err
}
