package openloop

import (
	"bufio"
	"fmt"
	"net"
	"strings"
)

const redisUnlock = `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) end return 0`

// Redis opens sessions of a Redis server, whose locks are keys with a value: an acquire sets the key unless it is
// there, a release is a script that deletes it if it has the value. Answers come in the order of the requests.
func Redis(c *Client, address, prefix string, sessions, connections int) error {
	conns := make([]*redisConn, connections)
	for i := range conns {
		to, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		conns[i] = &redisConn{Conn: to, client: c}
		c.read(to, conns[i].read)
	}
	for i := range sessions {
		name := fmt.Sprint(prefix, "-", i)
		c.sessions = append(c.sessions, &redisSession{conn: conns[i%connections], requests: [2][]byte{
			redisCommand("SET", name, "its", "NX", "PX", fmt.Sprint(lockMillis)),
			redisCommand("EVAL", redisUnlock, "1", name, "its")}})
	}
	return nil
}

func redisCommand(words ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return []byte(b.String())
}

type redisConn struct {
	net.Conn
	client *Client
	unanswered
}

// read reads until the connection ends.
func (n *redisConn) read() error {
	for lines := bufio.NewReader(n); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if line != "+OK\r\n" && line != ":1\r\n" {
			return fmt.Errorf("Redis answered %q", line)
		}
		request, err := n.first()
		if err != nil {
			return err
		}
		n.client.answered(request)
	}
}

type redisSession struct {
	conn     *redisConn
	sent     int
	requests [2][]byte
}

// send implements session.
func (s *redisSession) send(request int) error {
	s.conn.add(request)
	_, err := s.conn.Write(s.requests[s.sent%2])
	s.sent++
	return err
}
