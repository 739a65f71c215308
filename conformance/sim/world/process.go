package world

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	coordd "github.com/coordd/coordd/server"
)

// stopper is a server that has started.
type stopper interface {
	Stop(ctx context.Context) error
}

// processes is the part of a server that its processes share.
type processes struct {
	gateway string        // see process.Setup
	turn    chan struct{} // capacity 1: held by the only one that runs
}

// kill ends a life. The lock is held, here and below.
func (l *life) kill() {
	if l.world.program == "" {
		rt.Kill(l.node)
	} else if l.process != nil {
		_ = l.process.Command.Process.Kill() // its error is that it has ended
	}
}

// hold makes a life stand still, or go on.
func (l *life) hold(still bool) {
	switch {
	case l.world.program == "" && still:
		rt.Freeze(l.node)
	case l.world.program == "":
		rt.Thaw(l.node)
	case l.process == nil: // begin looks
	case still:
		_ = l.process.Pause() // as above
	default:
		_ = l.process.Resume()
	}
}

// startProcesses prepares for servers that are processes, and starts their neighbours.
func (w *World) startProcesses() error {
	best := time.Hour
	for range 1000 { // one of these is not interrupted
		before, now, took := w.trace.Now(), process.Monotonic(), time.Duration(0)
		if took = w.trace.Now() - before; took < best {
			best, w.began = took, now-before-took/2
		}
	}
	for range w.plan.Neighbours {
		p, err := testserver.Start(testserver.Config{Program: "/bin/sh", Args: []string{"-c", "while :; do :; done"},
			Log: filepath.Join(w.dir, "log-neighbours"),
		})
		if err != nil {
			return err
		}
		w.neighbours = append(w.neighbours, p)
	}
	return w.openGateways()
}

// begin starts a process, as soon as the one before is gone, and waits for its end.
func (l *life) begin(config coordd.Config) {
	w, s := l.world, l.server
	s.processes.turn <- struct{}{}
	defer func() { <-s.processes.turn }()
	wanted := false
	var setup process.Setup
	w.do(func() {
		wanted = s.life == l
		setup = process.Setup{Gateway: s.processes.gateway, Journal: s.journal(), Limits: w.plan.Limits,
			Version: l.version}
	})
	variable, err := setup.Environment()
	if !wanted || err != nil {
		return
	}
	p, err := testserver.Start(testserver.Config{Program: w.program, Args: arguments(&config),
		Env: append(os.Environ(), variable), OpenStdin: true, Line: l.line, Log: s.log()})
	if err != nil {
		w.do(func() { w.violation("the simulation cannot start a process: %v", err) })
		return
	}
	w.do(func() {
		l.process = p
		w.counts["starts"]++
		s.disk.(*orders).begin(p)
		switch {
		case s.life != l:
			l.kill()
		case l.stands():
			l.hold(true)
		}
	})
	<-p.Ended()
	w.do(func() { l.processEnded(p) })
}

func (s *server) journal() string { return filepath.Join(s.world.dir, "journal-"+s.name) }
func (s *server) log() string     { return filepath.Join(s.world.dir, "log-"+s.name) }

// arguments returns the command line of a configuration.
func arguments(c *coordd.Config) []string {
	args := []string{"--listen", c.Listen, "--database", c.Database, "--data-dir", c.DataDir, "--disk-reserve",
		fmt.Sprint(c.DiskReserve), "--listen-http", "off", "--log-level", "debug", "--name", c.Cluster.Name,
		"--listen-peer", c.Cluster.ListenPeer, "--insecure-peers"}
	if c.Cluster.Initial == nil {
		return append(args, "--join", strings.Join(c.Cluster.Join, ","))
	}
	var initial []string
	for _, name := range slices.Sorted(maps.Keys(c.Cluster.Initial)) {
		initial = append(initial, name+"="+c.Cluster.Initial[name])
	}
	return append(args, "--initial-cluster", strings.Join(initial, ","))
}

// line takes a line that a process has printed: see package process.
func (l *life) line(text string) {
	w := l.world
	kind, rest, _ := strings.Cut(text, " ")
	switch {
	case kind == "listen":
		address, real, _ := strings.Cut(rest, " ")
		w.do(func() {
			if l.server.life == l {
				l.listen(address, real)
			}
		})
	case kind == "due":
		go l.disk.(*orders).due(rt.Op(rest))
	case strings.HasPrefix(text, "grpc://"):
		w.do(func() { l.started(l, nil) })
	}
}

// Stop implements stopper.
func (l *life) Stop(ctx context.Context) error {
	err := l.process.Command.Process.Signal(syscall.SIGTERM)
	select {
	case <-l.process.Ended():
	case <-ctx.Done():
		err = ctx.Err()
	}
	return err
}

// processEnded takes the end of a process. One that was asked to stop succeeds.
func (l *life) processEnded(p *testserver.Process) {
	err := &endError{code: exit.Code(p.ExitCode()), text: lastLine(p.Logged())}
	if l.excuse != "" && err.code > 0 {
		if l.excuse = ""; l.pardon(err) == "" {
			l.world.violation("%s was asked to stop, and ended: %v", l.name, err)
		}
		l.excuse = "it ended while it was asked to stop"
	}
	if l.running == nil {
		l.started(nil, err)
	} else {
		l.ended(err)
	}
}

// lastLine returns the last line that a program printed about its end.
func lastLine(log string) string {
	if at := strings.LastIndex(log, "\ncoordd: "); at >= 0 {
		return log[at+1:]
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}

// endError is the end of a process.
type endError struct {
	code exit.Code // -1: by a signal
	text string
}

func (e *endError) Error() string { return fmt.Sprintf("exit code %d: %s", e.code, e.text) }

// Is recognizes errors by exit code and text.
func (e *endError) Is(target error) bool {
	switch target {
	case raftstore.ErrRemoved:
		return e.code == exit.Removed
	case raftstore.ErrEmptied:
		return e.code == exit.Config && strings.Contains(e.text, target.Error())
	}
	return false
}

// As recognizes kinds of errors in the same way.
func (e *endError) As(target any) bool {
	switch target.(type) {
	case **datadir.CorruptionError:
		return e.code == exit.Damaged
	case **raftstore.VersionError:
		return e.code == exit.Config && strings.Contains(e.text, "version")
	}
	return false
}
