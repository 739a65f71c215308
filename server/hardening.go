package server

import (
	"cmp"
	"errors"
	"time"

	"github.com/coordd/coordd/server/listen"
)

// Hardening bounds what a client may take of this server. Every field is inclusive; a zero field takes its default.
// docs/limits.md lists all limits.
type Hardening struct {
	// StreamsPerConnection is how many calls, Session streams above all, one connection may have open at once.
	StreamsPerConnection int
	// Streams is how many Session streams the process holds at once (coordination.md §5).
	Streams int
	// ConnectionsPerAddress is how many connections one IP address may have open at once.
	ConnectionsPerAddress int
	// FirstMessage is how long a Session stream may be open without a SessionStart.
	FirstMessage time.Duration
	// Handshake is how long a new connection may take to become usable.
	Handshake time.Duration
	// Idle is how long a connection may be open without any call.
	Idle time.Duration
	// Linger is how long a stream that has ended waits for its client to read the end.
	Linger time.Duration
	// ResetBurst is how many streams a connection may reset at once; ResetsPerSecond how many more each second.
	ResetBurst, ResetsPerSecond int
}

const (
	defaultStreamsPerConnection  = 100_000
	defaultStreams               = 100_000
	defaultConnectionsPerAddress = 20_000
	defaultFirstMessage          = 30 * time.Second
	defaultHandshake             = 20 * time.Second
	defaultIdle                  = 30 * time.Minute
	defaultLinger                = 10 * time.Second
	defaultResetBurst            = 20_000
	defaultResetsPerSecond       = 1_000

	// minPingGap is how often a client may ping a connection (surface.md §6); after a few pings too many it is closed.
	minPingGap = time.Second
	// keepaliveTime is how long a connection may be silent before it is asked for a sign of life, keepaliveTimeout how
	// long that may take.
	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 10 * time.Second

	// maxHeaderBytes bounds the headers of a call, each counted with 32 bytes on top (RFC 9113, 6.5.2). Tickets are the
	// largest that clients send and have a few kilobytes.
	maxHeaderBytes = 64 << 10
)

func (h Hardening) withDefaults() Hardening {
	return Hardening{
		StreamsPerConnection:  cmp.Or(h.StreamsPerConnection, defaultStreamsPerConnection),
		Streams:               cmp.Or(h.Streams, defaultStreams),
		ConnectionsPerAddress: cmp.Or(h.ConnectionsPerAddress, defaultConnectionsPerAddress),
		FirstMessage:          cmp.Or(h.FirstMessage, defaultFirstMessage),
		Handshake:             cmp.Or(h.Handshake, defaultHandshake),
		Idle:                  cmp.Or(h.Idle, defaultIdle),
		Linger:                cmp.Or(h.Linger, defaultLinger),
		ResetBurst:            cmp.Or(h.ResetBurst, defaultResetBurst),
		ResetsPerSecond:       cmp.Or(h.ResetsPerSecond, defaultResetsPerSecond),
	}
}

// ofConnections is what of it concerns connections.
func (h Hardening) ofConnections() listen.Limits {
	return listen.Limits{ConnectionsPerAddress: h.ConnectionsPerAddress, ResetBurst: h.ResetBurst, ResetsPerSecond: h.ResetsPerSecond}
}

func (h Hardening) validate() error {
	const most = 1 << 30
	for _, n := range []int{h.StreamsPerConnection, h.Streams, h.ConnectionsPerAddress, h.ResetBurst, h.ResetsPerSecond} {
		if n < 0 || n > most {
			return errors.New("limits: want numbers from 1 to 1073741824")
		}
	}
	for _, d := range []time.Duration{h.FirstMessage, h.Handshake, h.Idle, h.Linger} {
		if d < 0 || d%time.Millisecond != 0 {
			return errors.New("limits: want durations of at least a millisecond")
		}
	}
	return nil
}
