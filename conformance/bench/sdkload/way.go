package main

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	dialTimeout = 500 * time.Millisecond
	// homeInterval is the interval at which a worker that is elsewhere probes its home.
	homeInterval = 500 * time.Millisecond
)

// way dials a worker's server: home, or the next one that takes connections. It replaces a load balancer in front of
// the servers.
type way struct {
	servers []string
	home    int

	mutex sync.Mutex
	first int // to try first
	at    int
	conn  net.Conn
	asked time.Time
}

// dial is gRPC's dialer.
func (v *way) dial(ctx context.Context, _ string) (net.Conn, error) {
	v.mutex.Lock()
	first := v.first
	v.mutex.Unlock()
	var err error
	for i := range v.servers {
		at := (first + i) % len(v.servers)
		bounded, cancel := context.WithTimeout(ctx, dialTimeout)
		var conn net.Conn
		conn, err = new(net.Dialer).DialContext(bounded, "tcp", v.servers[at])
		cancel()
		if err != nil {
			continue
		}
		v.mutex.Lock()
		defer v.mutex.Unlock()
		v.at, v.conn, v.first = at, conn, v.home
		return conn, nil
	}
	return nil, err
}

// server is the number of the one that the last connection went to.
func (v *way) server() int {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.at
}

// leave drops the connection to a server that does not answer, for one to the next server.
func (v *way) leave() {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.first = (v.at + 1) % len(v.servers)
	if v.conn != nil {
		_ = v.conn.Close()
	}
}

// homeAgain reports whether the worker is elsewhere and its home serves.
func (v *way) homeAgain(ctx context.Context) bool {
	v.mutex.Lock()
	away, due := v.at != v.home, time.Since(v.asked) > homeInterval
	if away && due {
		v.asked = time.Now()
	}
	v.mutex.Unlock()
	if !away || !due {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", v.servers[v.home])
	if err != nil {
		return false
	}
	defer conn.Close()
	// The system takes connections for a paused process; gRPC's first bytes show that it runs.
	_ = conn.SetReadDeadline(time.Now().Add(dialTimeout))
	_, err = conn.Read(make([]byte, 1))
	return err == nil
}
