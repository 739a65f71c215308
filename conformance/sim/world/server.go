package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	coordd "github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/group"
)

// server is a server of the plan, through all of its lives. Its fields need the world's lock.
type server struct {
	world       *World
	index       int
	name, host  string
	plan        plan.Server
	disk        storage
	directories int
	life        *life // nil while its process is down
	version     int   // of commands, of its next life; 0: the program's own
	clockPPM    int64
	first       bool       // it starts as one of the first members
	member      membership // as far as its administrators know
	ruined      string     // why it may not come back with its data; "": it may
	rotten      bool       // a bit of its data was turned
	removing    bool       // a removal may have been made that was not answered
	has         memory
	changed     <-chan struct{} // closed once its last change is over; nil before the first
	processes   processes       // of all its lives, where it has some
}

type membership int

const (
	absent membership = iota
	present
	unsure
)

// life is a process of a server.
type life struct {
	*server
	node      rt.Node
	version   int                   // of commands, which hides that of the next life
	group     *group.Group          // once it is open
	machine   *coordination.Machine // once it has executed an entry
	running   stopper               // once it has started
	process   *testserver.Process   // nil: it is simulated, or has not begun
	frozen    int                   // faults that make it stand still
	suspended bool
	excuse    string        // why it may end by itself; "": it may not
	comeback  time.Duration // after which it is started again if it ends by itself
	permit    bool          // it may speak because the leader let it, when it was looked at last
}

func (s *server) clientAddress() string { return s.host + ":2136" }
func (s *server) peerAddress() string   { return s.host + ":2137" }
func (s *server) socketAddress() string { return s.host + ":1" }

// serves reports whether the server is a member that runs. The lock is held.
func (s *server) serves() bool { return s.member == present && s.life != nil && s.life.running != nil }

func (s *server) nextDir() string {
	s.directories++
	return filepath.Join(s.world.dir, fmt.Sprintf("%s-%d", s.name, s.directories))
}

const reserveBytes = 64 << 20

// boot starts a server that is down. The lock is held, here and below.
func (w *World) boot(s *server) {
	w.nodes++
	l := &life{server: s, node: w.nodes, version: s.version, comeback: time.Second}
	s.life = l
	rt.SetRate(l.node, s.clockPPM)
	config := w.config(s)
	w.note("start %s", s.name)
	if w.program != "" {
		go l.begin(config)
		return
	}
	rt.As(l.node, func() {
		go func() {
			started, err := coordd.StartWith(context.Background(), config, l.hooks())
			w.do(func() { l.started(started, err) })
			if err == nil {
				<-started.Done()
				w.do(func() { l.ended(started.Err()) })
			}
		}()
	})
}

func (w *World) config(s *server) coordd.Config {
	cluster := raftstore.Cluster{Name: s.name, ListenPeer: s.peerAddress(), Dial: s.dial}
	if s.first {
		cluster.Initial = map[string]string{}
		for _, other := range w.servers {
			if other.plan.Member {
				cluster.Initial[other.name] = other.peerAddress()
			}
		}
	} else {
		for _, other := range w.servers {
			if other != s {
				cluster.Join = append(cluster.Join, other.peerAddress())
			}
		}
	}
	limits := coordination.DefaultLimits()
	limits.State = w.plan.Limits.StateBytes
	return coordd.Config{Listen: s.clientAddress(), Database: "/local", DataDir: s.disk.Dir(),
		DiskReserve: reserveBytes, Limits: limits, Cluster: cluster,
		Logger: w.logs.logger().With("server", s.name)}
}

func (s *server) dial(ctx context.Context, address string) (net.Conn, error) {
	return s.world.net.Dial(ctx, s.host, address)
}

func (l *life) hooks() hooks.Hooks {
	w, s := l.world, l.server
	h := hooks.Hooks{Listen: w.net.Listen, Opened: func(g any) { l.opened(g.(*group.Group)) },
		Socket: func(string) (net.Listener, error) {
			listener, err := w.net.Listen(s.socketAddress())
			return socketListener{listener}, err
		},
		Executed: func(m *coordination.Machine, e *coordination.Entry) { w.inside.executed(l, m, e) },
		Log: func(c *raftstore.Config) {
			process.Apply(&w.plan.Limits, c)
			c.FreeSpace = func(string) (uint64, error) {
				faults := s.disk.(*disk.Disk).Faults()
				return faults.FreeBytes(), nil
			}
		}}
	if l.version != 0 {
		h.Formats = coordination.Formats{Version: uint64(l.version), Since: codec.Since}
	}
	return h
}

// socketListener makes callers appear as those of the administrator's socket.
type socketListener struct{ net.Listener }

// Accept implements net.Listener.
func (l socketListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return socketConn{c}, err
}

type socketConn struct{ net.Conn }

// RemoteAddr implements net.Conn.
func (socketConn) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// started takes the outcome of a start.
func (l *life) started(running stopper, err error) {
	w := l.world
	switch {
	case l.server.life != l:
	case err != nil:
		l.over("refuses to start", err)
	case l.ruined == wiped:
		w.violation("%s has started although its data is gone: %s", l.name, l.ruined)
	default:
		l.server.ruined = "" // the bit that was turned does not count, or not yet
		l.running = running
		w.note("%s has started", l.name)
	}
}

// ended takes why a server ended that had started.
func (l *life) ended(err error) {
	if l.server.life == l {
		l.over("has ended by itself", err)
	}
}

// over judges the end of a process, and buries it.
func (l *life) over(what string, err error) {
	w, s := l.world, l.server
	why := l.pardon(err)
	w.note("%s %s: %v (expected: %s)", s.name, what, err, why)
	if why == "" {
		w.violation("%s %s: %v", s.name, what, err)
	}
	w.logs.mark(why)
	comeback := l.comeback
	w.exit(l)
	if why != "" && s.ruined == "" {
		w.bootAfter(comeback, s)
	}
}

// pardon returns what in the plan explains that a server ended, "" if nothing does.
func (l *life) pardon(err error) string {
	var corrupt *datadir.CorruptionError
	var version *raftstore.VersionError
	s := l.server
	switch {
	case l.excuse != "":
		return l.excuse
	case s.disk.Failed():
		return diskFailed
	case errors.Is(err, raftstore.ErrRemoved) && (s.removing || s.member == absent):
		s.member = absent
		return "it was removed"
	case !s.first && s.has.executed == 0 && (errors.Is(err, raftstore.ErrEmptied) || listedAsVoter(err)):
		return "it asked a member that does not know yet that its predecessor was removed"
	case errors.Is(err, raftstore.ErrEmptied) && s.ruined == wiped:
		return s.ruined
	case errors.As(err, &corrupt) && s.rotten:
		s.ruined = rotten
		return s.ruined
	case errors.As(err, &version) && l.version != 0:
		s.version = 0
		return "its program is too old"
	}
	return ""
}

// listedAsVoter reports whether a server was refused that wants to join under a name that a voter has.
func listedAsVoter(err error) bool {
	return strings.Contains(err.Error(), "the cluster lists it as a voter")
}

// bootIfDown starts a server that is down and has a place in the cluster.
func (w *World) bootIfDown(s *server) {
	if s.life == nil && s.member != absent {
		w.boot(s)
	}
}

// bootAfter is bootIfDown after a while.
func (w *World) bootAfter(d time.Duration, s *server) {
	time.AfterFunc(d, func() { w.do(func() { w.bootIfDown(s) }) })
}

// exit ends a process at once, without loss of what it wrote.
func (w *World) exit(l *life) {
	w.bury(l, true)
	if err := l.disk.Restart(l.nextDir()); err != nil {
		w.violation("the simulation cannot copy a directory: %v", err)
	}
}

// bury ends a process at once. The other ends of its connections learn it if its kernel lives.
func (w *World) bury(l *life, reset bool) {
	l.kill()
	w.net.Crash(l.host, reset)
	w.disturb()
	l.server.life = nil
}

// disturb marks that connections may have been lost: a follower may then elect another leader while the former one
// still has its lease (raftstore/DESIGN.md).
func (w *World) disturb() { w.disturbed = w.trace.Now() }

// kill ends a process like kill -9.
func (w *World) kill(s *server) {
	w.note("kill %s", s.name)
	w.exit(s.life)
}

// cutPower ends a process together with its machine.
func (w *World) cutPower(s *server, loss disk.Loss) {
	w.bury(s.life, w.chance.IntN(2) == 0)
	differ, err := s.disk.Crash(s.nextDir(), loss)
	if err != nil {
		w.violation("the simulation cannot copy a directory: %v", err)
	}
	w.note("%s loses power, %v of what was not synced survives, torn %v: %d files differ", s.name, loss.Share,
		loss.Torn, differ)
}
