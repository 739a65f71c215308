package raftstore

import (
	"net"
	"testing"
	"time"
)

// Connections on which nothing was said yet do not hold up the end: they are closed, those to come as well, and the old ones
// are not remembered.
func TestYoungConnectionsAreClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	young := &youngListener{Listener: listener}
	defer young.Close()
	dial := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		server, err = young.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		return client, server
	}
	isClosed := func(conn net.Conn) bool {
		conn.SetReadDeadline(time.Now().Add(patience))
		_, err := conn.Read(make([]byte, 1))
		timeout, is := err.(net.Error)
		return err != nil && !(is && timeout.Timeout())
	}
	grown, _ := dial()
	young.young[0].until = time.Time{} // long ago
	first, _ := dial()
	if len(young.young) != 1 {
		t.Errorf("%d connections are remembered", len(young.young))
	}
	young.closeAll()
	late, _ := dial()
	if !isClosed(first) || !isClosed(late) {
		t.Error("left open")
	}
	grown.SetReadDeadline(time.Now())
	if _, err := grown.Read(make([]byte, 1)); err == nil {
		t.Error("something came")
	} else if timeout, is := err.(net.Error); !is || !timeout.Timeout() {
		t.Errorf("one that may talk was closed: %v", err)
	}
}
