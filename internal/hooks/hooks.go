// Package hooks replaces parts of a server's environment: the stand-in for other people's tests
// (server/standin), the simulation (conformance/sim) and this module's own tests use it. The type cannot be named
// outside of this module. server.Start uses the zero value, which changes nothing.
package hooks

import (
	"net"
	"net/http"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
)

// Hooks are the places. A nil field leaves what is there.
type Hooks struct {
	// Rings is the clock of what coordination knows of time: the countdowns of sessions, waits, grace
	// periods, pings, failures that are held back. Raft, the relay, the right to speak, TLS, logins and the
	// limits of connections do not go by it.
	Rings Clock
	// Remind makes the server ping clients by the real clock as well, while it returns true: they go by that one, and
	// Rings may stand still. It is called under a stream's lock.
	Remind func() bool
	// Shell is the clock of the relay between servers, of the right to speak and of the other timers of a
	// server's own. Those of raft and gRPC go by no other than the real one.
	Shell Clock
	// Patience limits a call without a shorter limit of its own, in place of the servers' default.
	Patience time.Duration
	// Log changes the configuration with which the log is opened.
	Log func(*raftstore.Config)
	// Opened gets the *group.Group of a server that starts, before the group takes part in the cluster.
	Opened func(group any)
	// Executed gets each entry just before the machine executes it, in the order of the log. The caller holds the
	// group's turn.
	Executed func(*coordination.Machine, *coordination.Entry)
	// Formats replaces the command versions that the server can read; zero: those of this program.
	Formats coordination.Formats
	// Listen listens on an address of the server, be it for clients or for other servers.
	Listen func(address string) (net.Listener, error)
	// Socket opens the administrator's socket of a data directory.
	Socket func(dir string) (net.Listener, error)
	// Monitoring serves monitoring programs on an address in the server's place, and returns the resulting address: its
	// listener survives the server, and the next server gives it the handler.
	Monitoring func(address string, handler http.Handler) (net.Addr, error)
	// Shuffle permutes the servers in an answer to a client.
	Shuffle func(n int, swap func(i, j int))
	// Faults decides whether something is to go wrong.
	Faults Faults
}

// Clock is a clock that somebody turns by hand. It is monotonic and starts near 0.
type Clock interface {
	Now() coordination.Instant
	AfterFunc(d time.Duration, do func()) Timer
}

// Timer is the part of *time.Timer that is needed.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// Key opens what a server has for the stand-in alone: like the hooks, nobody else can name it.
type Key struct{ _ struct{} }
