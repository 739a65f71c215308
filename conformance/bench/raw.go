package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/conformance/raw"
)

const (
	nodePath  = "/local/bench"
	groupName = "group"
	// fillers is the number of sessions that create semaphores at the same time.
	fillers = 256
)

// rawClient is coordd's protocol on bare streams. It serves the stub as well.
var rawClient = &client{locks: rawLocks, watch: rawWatch, list: rawList, idle: rawIdle, hold: rawHold,
	roam: rawRoam, fill: rawFill}

// attachOnce makes the node if need be, and attaches a session.
func attachOnce(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conns, err := raw.Dial(address, 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	if err := raw.CreateNode(ctx, conns[0], nodePath); err != nil {
		return err
	}
	_, err = open(ctx, conns[0], busySession)
	return err
}

func open(ctx context.Context, conn *grpc.ClientConn, timeout time.Duration) (*raw.Session, error) {
	return raw.Open(ctx, conn, &raw.Start{Path: nodePath, TimeoutMillis: millisOf(timeout)})
}

func millisOf(d time.Duration) uint64 { return uint64(d.Milliseconds()) }

// rawConns makes the connections that n sessions share.
func rawConns(t *turn, address string, n int) ([]*grpc.ClientConn, error) {
	conns, err := raw.Dial(address, min(n, connections))
	t.later(func() { raw.Close(conns) })
	return conns, err
}

// openEach opens n sessions, spread over the connections, and hands each on as soon as it is open: while many
// are being opened, the first ones have pings to answer.
func openEach(ctx context.Context, conns []*grpc.ClientConn, n int, timeout time.Duration,
	handOn func(i int, s *raw.Session)) error {
	return load.Together(conns, func(first int, conn *grpc.ClientConn) error {
		for i := first; i < n; i += len(conns) {
			s, err := open(ctx, conn, timeout)
			if err != nil {
				return err
			}
			handOn(i, s)
		}
		return nil
	})
}

// rawSessions opens sessions that share connections.
func rawSessions(t *turn, address string, n int, timeout time.Duration) ([]*raw.Session, error) {
	conns, err := rawConns(t, address, n)
	if err != nil {
		return nil, err
	}
	sessions := make([]*raw.Session, n)
	return sessions, openEach(t, conns, n, timeout, func(i int, s *raw.Session) { sessions[i] = s })
}

func rawLocks(t *turn, address string, kind load.Kind, n int) ([]load.Session, error) {
	sessions, err := rawSessions(t, address, n, busySession)
	if err != nil {
		return nil, err
	}
	for i, name := range kind.Semaphores("", n) {
		if err := sessions[i].Create(name, 1); err != nil {
			return nil, err
		}
	}
	all := make([]load.Session, n)
	for i, s := range sessions {
		all[i] = s
	}
	return all, nil
}

func rawWatch(t *turn, address string, n int) (*watching, error) {
	sessions, err := rawSessions(t, address, n+1, busySession)
	if err != nil {
		return nil, err
	}
	const name = "watched"
	writer := sessions[n]
	return &watching{
		arm:   func(i int) error { _, err := sessions[i].Describe(name, true); return err },
		heard: func(i int) error { _, err := sessions[i].Receive(); return err },
		write: func() error { return writer.Update(name, []byte(time.Now().String())) },
	}, writer.Create(name, 1)
}

// rawMembers makes a group.
func rawMembers(t *turn, address string, members int) error {
	sessions, err := rawSessions(t, address, members, busySession)
	if err != nil {
		return err
	}
	if err := sessions[0].Create(groupName, 1<<20); err != nil {
		return err
	}
	// Members that only vanished would stay until their sessions have timed out, and be counted in the next
	// round.
	t.later(func() {
		_ = load.Together(sessions, func(_ int, s *raw.Session) error { return s.Release(groupName) })
	})
	return load.Together(sessions, func(_ int, s *raw.Session) error {
		return s.Hold(groupName, make([]byte, memberBytes))
	})
}

func rawList(t *turn, address string, members, listers int) (func(int) (int, error), error) {
	if err := rawMembers(t, address, members); err != nil {
		return nil, err
	}
	sessions, err := rawSessions(t, address, listers, busySession)
	return func(i int) (int, error) {
		d, err := sessions[i].Describe(groupName, false)
		return len(d.GetOwners()), err
	}, err
}

// rawIdle makes each session answer pings as soon as it is open.
func rawIdle(t *turn, address string, n int, lost chan<- error) error {
	conns, err := rawConns(t, address, n)
	if err != nil {
		return err
	}
	return openEach(t, conns, n, idleSession, func(_ int, s *raw.Session) {
		go func() { _, err := s.Receive(); lost <- err }()
	})
}

// cuttable is a dialler of connections that can be cut off all at once, without a goodbye.
type cuttable struct {
	mutex sync.Mutex
	over  bool
	conns []net.Conn
}

func (c *cuttable) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.over {
		_ = conn.Close()
		return nil, errors.New("cut off")
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cuttable) cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.over = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

func rawHold(t *turn, address string, i int) (*holding, error) {
	name := fmt.Sprint("cut-", i)
	line := new(cuttable)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(line.dial))
	if err != nil {
		return nil, err
	}
	t.later(func() { _ = conn.Close() })
	owner, err := open(t, conn, cutSession)
	if err != nil {
		return nil, err
	}
	waiters, err := rawSessions(t, address, 1, busySession)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(owner.Create(name, 1), owner.Acquire(name, 1)); err != nil {
		return nil, err
	}
	go func() { _, _ = owner.Receive() }() // answers pings until it is cut off
	t.later(func() { _ = waiters[0].Release(name) })
	return &holding{line.cut, func() error { return waiters[0].Acquire(name, 1) }}, nil
}

// rawRoamer is a session that goes to the next server whenever its stream ends.
type rawRoamer struct {
	conns   []*grpc.ClientConn
	at      int
	name    string
	id, seq uint64
	session *raw.Session
	cancel  context.CancelFunc
}

func rawRoam(t *turn, addresses []string, first int) (func(context.Context) error, error) {
	r := &rawRoamer{at: first % len(addresses), name: fmt.Sprint("roaming-", first)}
	for _, address := range addresses {
		conns, err := rawConns(t, address, 1)
		if err != nil {
			return nil, err
		}
		r.conns = append(r.conns, conns...)
	}
	if err := r.attach(t); err != nil {
		return nil, err
	}
	t.later(func() { r.cancel() })
	return r.step, r.session.Create(r.name, 1)
}

func (r *rawRoamer) attach(ctx context.Context) error {
	// The stream outlives the step that opens it, so the step's deadline ends it only until it is attached.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	r.seq++
	s, err := raw.Open(streamCtx, r.conns[r.at],
		&raw.Start{Path: nodePath, TimeoutMillis: millisOf(busySession), SessionId: r.id, SeqNo: r.seq})
	if !stop() || err != nil {
		cancel()
		return errors.Join(err, ctx.Err())
	}
	r.session, r.id, r.cancel = s, s.ID, cancel
	return nil
}

// step waits on one server for as long as its stream lives: servers repeat what a lost leader has not
// executed.
func (r *rawRoamer) step(ctx context.Context) error {
	if r.session == nil {
		if err := r.attach(ctx); err != nil {
			r.at = (r.at + 1) % len(r.conns)
			return err
		}
	}
	defer context.AfterFunc(ctx, r.cancel)()
	err := r.session.Acquire(r.name, 1)
	if err == nil {
		_, err = r.session.TryRelease(r.name)
	}
	if err != nil {
		r.cancel()
		r.session, r.at = nil, (r.at+1)%len(r.conns)
	}
	return err
}

// rowName is that of the i-th row.
func rowName(i int) string { return fmt.Sprintf("row-%09d", i) }

func rawFill(t *turn, address string, n int) error { return rawRows(t, address, 0, n) }

// rawRows creates the semaphores from one number up to another, each with room for all busy clients.
func rawRows(t *turn, address string, from, to int) error {
	conns, err := rawConns(t, address, fillers)
	if err != nil {
		return err
	}
	return load.Together(make([]struct{}, fillers), func(first int, _ struct{}) error {
		s, err := open(t, conns[first%len(conns)], busySession)
		for i := from + first; i < to && err == nil; i += fillers {
			err = s.Create(rowName(i), busyClients)
		}
		return err
	})
}
