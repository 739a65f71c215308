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

const nodePath = "/local/bench"

// rawClient is coordd's protocol on bare streams. It serves the stub as well.
var rawClient = &client{locks: rawLocks, watch: rawWatch, group: rawGroup, idle: rawIdle, hold: rawHold,
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
	_, err = raw.Open(ctx, conns[0], &raw.Start{Path: nodePath, TimeoutMillis: millisOf(busySession)})
	return err
}

func millisOf(d time.Duration) uint64 { return uint64(d.Milliseconds()) }

// rawSessions opens sessions that share connections, and returns a function that ends all of them.
func rawSessions(ctx context.Context, address string, n int, timeout time.Duration) ([]*raw.Session, func(),
	error) {
	ctx, cancel := context.WithCancel(ctx)
	conns, err := raw.Dial(address, min(n, connections))
	if err != nil {
		cancel()
		return nil, nil, err
	}
	end := func() { cancel(); raw.Close(conns) }
	sessions := make([]*raw.Session, n)
	err = load.Together(conns, func(first int, conn *grpc.ClientConn) error {
		for i := first; i < n; i += len(conns) {
			s, err := raw.Open(ctx, conn, &raw.Start{Path: nodePath, TimeoutMillis: millisOf(timeout)})
			if err != nil {
				return err
			}
			sessions[i] = s
		}
		return nil
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return sessions, end, nil
}

func rawLocks(ctx context.Context, address string, kind load.Kind, n int) ([]load.Session, func(), error) {
	sessions, end, err := rawSessions(ctx, address, n, busySession)
	if err != nil {
		return nil, nil, err
	}
	all := make([]load.Session, n)
	for i, s := range sessions {
		all[i] = s
	}
	for i, name := range kind.Semaphores("", n) {
		if err := sessions[i].Create(name, 1); err != nil {
			end()
			return nil, nil, err
		}
	}
	return all, end, nil
}

func rawWatch(ctx context.Context, address string, n int) (*watching, error) {
	sessions, end, err := rawSessions(ctx, address, n+1, busySession)
	if err != nil {
		return nil, err
	}
	const name = "watched"
	writer := sessions[n]
	if err := writer.Create(name, 1); err != nil {
		end()
		return nil, err
	}
	return &watching{
		arm:   func(i int) error { _, err := sessions[i].Describe(name, true); return err },
		heard: func(i int) error { _, err := sessions[i].Receive(); return err },
		write: func(round int) error { return writer.Update(name, []byte(time.Now().String())) },
		close: end,
	}, nil
}

// rawMembers makes a group and returns what ends it.
func rawMembers(ctx context.Context, address, name string, members int) (func(), error) {
	sessions, end, err := rawSessions(ctx, address, members, busySession)
	if err != nil {
		return nil, err
	}
	if err := sessions[0].Create(name, 1<<20); err != nil {
		end()
		return nil, err
	}
	if err := load.Together(sessions, func(_ int, s *raw.Session) error {
		return s.Hold(name, make([]byte, memberBytes))
	}); err != nil {
		end()
		return nil, err
	}
	// Members that only vanish stay until their sessions have timed out, and would be counted in the next
	// round.
	return func() {
		_ = load.Together(sessions, func(_ int, s *raw.Session) error { return s.Release(name) })
		end()
	}, nil
}

const groupName = "group"

func rawGroup(ctx context.Context, address string, members, listers int) (*listing, error) {
	endMembers, err := rawMembers(ctx, address, groupName, members)
	if err != nil {
		return nil, err
	}
	sessions, end, err := rawSessions(ctx, address, listers, busySession)
	if err != nil {
		endMembers()
		return nil, err
	}
	return &listing{
		list: func(i int) (int, error) {
			d, err := sessions[i].Describe(groupName, false)
			return len(d.GetOwners()), err
		},
		close: func() { end(); endMembers() },
	}, nil
}

// rawIdle has each session answer pings as soon as it is open.
func rawIdle(ctx context.Context, address string, n int, lost chan<- error) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	conns, err := raw.Dial(address, min(n, connections))
	if err != nil {
		cancel()
		return nil, err
	}
	end := func() { cancel(); raw.Close(conns) }
	err = load.Together(conns, func(first int, conn *grpc.ClientConn) error {
		for i := first; i < n; i += len(conns) {
			s, err := raw.Open(ctx, conn, &raw.Start{Path: nodePath, TimeoutMillis: millisOf(idleSession)})
			if err != nil {
				return err
			}
			go func() { _, err := s.Receive(); lost <- err }()
		}
		return nil
	})
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// cuttable makes connections that can be cut off all at once, without a goodbye. It is a dialler.
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

func rawHold(ctx context.Context, address string, i int) (*holding, error) {
	name := fmt.Sprint("cut-", i)
	line := new(cuttable)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(line.dial))
	if err != nil {
		return nil, err
	}
	holderSession, err := raw.Open(ctx, conn, &raw.Start{Path: nodePath, TimeoutMillis: millisOf(cutSession)})
	if err != nil {
		return nil, err
	}
	waiters, end, err := rawSessions(ctx, address, 1, busySession)
	if err != nil {
		return nil, err
	}
	if err := holderSession.Create(name, 1); err != nil {
		return nil, err
	}
	if err := holderSession.Acquire(name, 1); err != nil {
		return nil, err
	}
	go func() { _, _ = holderSession.Receive() }() // answers pings until it is cut off
	return &holding{
		cut:  line.cut,
		wait: func() error { return waiters[0].Acquire(name, 1) },
		close: func() {
			_ = waiters[0].Release(name)
			end()
			_ = conn.Close()
		},
	}, nil
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

func rawRoam(ctx context.Context, addresses []string, first int) (*roaming, error) {
	r := &rawRoamer{at: first % len(addresses), name: fmt.Sprint("roaming-", first)}
	for _, address := range addresses {
		conns, err := raw.Dial(address, 1)
		if err != nil {
			return nil, err
		}
		r.conns = append(r.conns, conns...)
	}
	if err := r.attach(ctx); err != nil {
		return nil, err
	}
	if err := r.session.Create(r.name, 1); err != nil {
		return nil, err
	}
	return &roaming{step: r.step, close: func() { r.cancel(); raw.Close(r.conns) }}, nil
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

// fillers create semaphores at the same time.
const fillers = 256

func rawFill(ctx context.Context, address string, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(address, connections)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	return load.Together(make([]struct{}, fillers), func(first int, _ struct{}) error {
		s, err := raw.Open(ctx, conns[first%len(conns)],
			&raw.Start{Path: nodePath, TimeoutMillis: millisOf(busySession)})
		for i := first; i < n && err == nil; i += fillers {
			err = s.Create(fmt.Sprintf("row-%09d", i), 1)
		}
		return err
	})
}
