package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/load"
)

const (
	nodePath  = "/local/bench"
	groupName = "group"
	// fillers is the number of sessions that create semaphores at the same time.
	fillers = 256
)

// rawClient is coordd's protocol on bare streams. It serves the stub as well.
var rawClient = &client{locks: rawLocks, watch: rawWatch, list: rawList, idle: rawIdle,
	roam: rawRoam, fill: func(t *turn, address string, n int) error { return rawRows(t, address, 0, n) }}

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
	handOn func(s *raw.Session)) error {
	return spread(conns, n, func(conn *grpc.ClientConn, _ int) error {
		s, err := open(ctx, conn, timeout)
		if err == nil {
			handOn(s)
		}
		return err
	})
}

// rawSessions opens sessions that share connections.
func rawSessions(t *turn, address string, n int) ([]*raw.Session, error) {
	conns, err := rawConns(t, address, n)
	if err != nil {
		return nil, err
	}
	return openAll(conns, n, func(conn *grpc.ClientConn) (*raw.Session, error) { return open(t, conn, busySession) })
}

func rawLocks(t *turn, address string, handOver bool, n int) ([]locker, error) {
	sessions, err := rawSessions(t, address, n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		if err := sessions[i].Create(lockName(handOver, i), 1); err != nil {
			return nil, err
		}
	}
	all := make([]locker, n)
	for i, s := range sessions {
		all[i] = s
	}
	return all, nil
}

func rawWatch(t *turn, address string, n int) (*watching, error) {
	sessions, err := rawSessions(t, address, n+1)
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
	sessions, err := rawSessions(t, address, members)
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
	sessions, err := rawSessions(t, address, listers)
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
	return openEach(t, conns, n, idleSession, func(s *raw.Session) {
		go func() { _, err := s.Receive(); lost <- err }()
	})
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

// rawRows creates the semaphores from one number up to another, each with room for all busy clients.
func rawRows(ctx context.Context, address string, from, to int) error {
	t := newTurn(ctx)
	defer t.end()
	sessions, err := rawSessions(t, address, fillers)
	if err != nil {
		return err
	}
	return spread(sessions, to-from, func(s *raw.Session, i int) error {
		return s.Create(rowName(from+i), busyClients)
	})
}
