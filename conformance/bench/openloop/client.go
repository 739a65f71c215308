package openloop

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/load"
)

const (
	// lockMillis bounds the time for which a lock lasts that its run does not release.
	lockMillis = 30_000
	// setupPatience bounds how long the server may take to answer while the sessions are opened.
	setupPatience = 10 * time.Second
	// endPatience bounds the wait for the answer to the last request.
	endPatience = 5 * time.Second
)

// Client sends the requests of one run: in turns over its sessions, each of which acquires and releases a lock of its
// own. It speaks the protocols itself, with messages that were encoded before, since clients of the usual kind take
// several times the processor time for a request.
type Client struct {
	sessions []session
	conns    []io.Closer
	failed   chan error // errors of connections

	dues  []time.Duration
	clock Clock
	mutex sync.Mutex
	each  []Answered
}

// Answered is a request of a run that was answered.
type Answered struct{ Due, Took time.Duration }

// session sends the requests of a session.
type session interface {
	// send sends a request of the run, in one write. The session's first, third and so on acquires its lock.
	send(request int) error
}

// Protocol opens the sessions of a client on connections to an address. Their locks have names with a prefix that no
// other run uses.
type Protocol func(c *Client, address, prefix string, sessions, connections int) error

// Open opens sessions that share connections.
func Open(by Protocol, address, prefix string, sessions, connections int) (*Client, error) {
	c := &Client{failed: make(chan error, connections+sessions)}
	if err := by(c, address, prefix, sessions, connections); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() error {
	var err error
	for _, conn := range c.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// read reads a connection until it ends.
func (c *Client) read(conn io.Closer, read func() error) {
	c.conns = append(c.conns, conn)
	go func() { c.failed <- read() }()
}

// Run sends the requests that are due from now on, and returns how long they took and how late they were sent.
// Requests that the server does not answer within some seconds of the last one are counted.
func (c *Client) Run(dues []time.Duration) (took, late load.Times, unanswered int, err error) {
	clock, err := StartMonotonic()
	if err != nil {
		return nil, nil, 0, err
	}
	defer clock.Stop()
	c.dues, c.clock = dues, clock
	late, err = Drive(clock, dues, func(i int) error { return c.sessions[i%len(c.sessions)].send(i) })
	for end := clock.Now() + endPatience; err == nil; {
		if unanswered = len(dues) - len(c.Each()); unanswered == 0 || clock.Now() > end {
			break
		}
		select {
		case err = <-c.failed:
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, a := range c.Each() {
		took = append(took, a.Took)
	}
	return took, late, unanswered, err
}

// Each returns the requests that have been answered.
func (c *Client) Each() []Answered {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clip(c.each)
}

// answered counts a request of the run that was answered.
func (c *Client) answered(request int) {
	due := c.dues[request]
	took := c.clock.Now() - due
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.each = append(c.each, Answered{due, took})
}

// unanswered are the requests on a connection that answers in order.
type unanswered struct {
	mutex    sync.Mutex
	requests []int
}

func (u *unanswered) add(request int) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.requests = append(u.requests, request)
}

// first removes the oldest one.
func (u *unanswered) first() (request int, err error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if len(u.requests) == 0 {
		return 0, errors.New("the server answers more than was asked")
	}
	request, u.requests = u.requests[0], u.requests[1:]
	return request, nil
}
