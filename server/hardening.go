package server

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/server/listen"
)

// The limits of the public listener. Sizes are bytes.
const (
	// maxMessageBytes bounds an answer, as in the reference (surface.md §6).
	maxMessageBytes = 64_000_000
	// maxRequestBytes bounds a message of a client, before and after it is decompressed. A Session stream's
	// have a semaphore's data at most, and what is a little too large is to be told so.
	maxRequestBytes = 4 << 20
	// maxCallBytes is the same for calls other than Session and ModifyPermissions.
	maxCallBytes = 1 << 20
	// maxLoginBytes is the same for calls that need no token.
	maxLoginBytes = 4 << 10
	// maxOutboundBytes is how much a stream may have waiting for a client that does not read before it is cut
	// off. It leaves room for one answer of the largest size.
	maxOutboundBytes = 2 * maxMessageBytes
	// streamWindowBytes is how much of a stream a client may send before it is read; gRPC makes an exception
	// for a message that is larger. connectionWindowBytes is the same for all streams of a connection.
	streamWindowBytes     = 64 << 10
	connectionWindowBytes = 1 << 20
)

// Hardening bounds what a client may take of this server. Every field is inclusive; a zero field takes its
// default. docs/limits.md lists all limits.
type Hardening struct {
	// StreamsPerConnection is how many calls, Session streams above all, one connection may have open at
	// once.
	StreamsPerConnection int
	// Streams is how many Session streams the process holds at once (coordination.md §5). Package share says
	// how much of it, of Calls and of Watches one subject may have.
	Streams int
	// Connections is how many connections may be open at once, ConnectionsPerAddress how many of one IP
	// address, and Strangers how many on which nobody has proven yet who is there. See listen.Connections for
	// who makes room.
	Connections, ConnectionsPerAddress, Strangers int
	// Calls is how many calls other than Session may be under way at once, and Watches the same for calls that
	// last as long as the client likes: Health.Watch and reflection.
	Calls, Watches int
	// ReceivedBytes is how much the server keeps of messages that it has received and not yet worked on.
	ReceivedBytes int64
	// Receive is how long the request of a call other than Session may take to come, and ReceiveUnknown the
	// same for a caller that is not known where authentication is required.
	Receive, ReceiveUnknown time.Duration
	// FirstMessage is how long a Session stream may be open without a SessionStart.
	FirstMessage time.Duration
	// Handshake is how long a new connection may take to become usable.
	Handshake time.Duration
	// Idle is how long a connection may be open without any call.
	Idle time.Duration
	// Linger is how long a stream that has ended waits for its client to read the end, and then, as after any
	// other call, how long nothing of it may leave before the connection is closed.
	Linger time.Duration
	// ResetBurst is how many streams a connection may reset at once; ResetsPerSecond how many more each
	// second.
	ResetBurst, ResetsPerSecond int
}

const (
	defaultStreamsPerConnection  = 100_000
	defaultStreams               = 100_000
	defaultConnections           = 100_000
	defaultConnectionsPerAddress = 20_000
	defaultStrangers             = 1_000
	defaultCalls                 = 10_000
	defaultWatches               = 1_000
	defaultReceivedBytes         = 1 << 30
	defaultReceive               = 20 * time.Second
	defaultReceiveUnknown        = 3 * time.Second
	defaultFirstMessage          = 30 * time.Second
	defaultHandshake             = 20 * time.Second
	defaultIdle                  = 30 * time.Minute
	defaultLinger                = 10 * time.Second
	defaultResetBurst            = 20_000
	defaultResetsPerSecond       = 1_000

	// minPingGap is how often a client may ping a connection (surface.md §6); after a few pings too many it
	// is closed.
	minPingGap = time.Second
	// keepaliveTime is how long a connection may be silent before it is asked for a sign of life,
	// keepaliveTimeout how long that may take.
	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 10 * time.Second

	// maxHeaderBytes bounds the headers of a call, each counted with 32 bytes on top (RFC 9113, 6.5.2).
	// Tickets are the largest that clients send and have a few kilobytes.
	maxHeaderBytes = 64 << 10
)

func (h Hardening) withDefaults(resources Resources) Hardening {
	fit := resources.fit()
	h.StreamsPerConnection = cmp.Or(h.StreamsPerConnection, defaultStreamsPerConnection)
	h.Streams = cmp.Or(h.Streams, fit.Streams)
	h.Connections = cmp.Or(h.Connections, fit.Connections)
	h.ConnectionsPerAddress = cmp.Or(h.ConnectionsPerAddress, fit.ConnectionsPerAddress)
	h.Strangers = cmp.Or(h.Strangers, fit.Strangers)
	h.Calls = cmp.Or(h.Calls, fit.Calls)
	h.Watches = cmp.Or(h.Watches, fit.Watches)
	h.ReceivedBytes = cmp.Or(h.ReceivedBytes, fit.ReceivedBytes)
	h.Receive = cmp.Or(h.Receive, defaultReceive)
	h.ReceiveUnknown = cmp.Or(h.ReceiveUnknown, defaultReceiveUnknown)
	h.FirstMessage = cmp.Or(h.FirstMessage, defaultFirstMessage)
	h.Handshake = cmp.Or(h.Handshake, defaultHandshake)
	h.Idle = cmp.Or(h.Idle, defaultIdle)
	h.Linger = cmp.Or(h.Linger, defaultLinger)
	h.ResetBurst = cmp.Or(h.ResetBurst, defaultResetBurst)
	h.ResetsPerSecond = cmp.Or(h.ResetsPerSecond, defaultResetsPerSecond)
	return h
}

// ofConnections is what of it concerns connections. Where authentication is required, the proof of who is at
// the other end of a connection is a call of somebody who is known.
func (h Hardening) ofConnections(proofWanted bool) listen.Limits {
	return listen.Limits{
		Connections: h.Connections, ConnectionsPerAddress: h.ConnectionsPerAddress, Strangers: h.Strangers,
		ProofWanted: proofWanted,
		Calls:       h.Calls, Standing: h.Watches, Streams: h.Streams, Linger: h.Linger,
		ReceivedBytes: h.ReceivedBytes,
		ResetBurst:    h.ResetBurst, ResetsPerSecond: h.ResetsPerSecond,
	}
}

func (h Hardening) validate() error {
	const most = 1 << 30
	for _, n := range []int{h.StreamsPerConnection, h.Streams, h.Connections, h.ConnectionsPerAddress,
		h.Strangers, h.Calls, h.Watches, h.ResetBurst, h.ResetsPerSecond} {
		if n < 0 || n > most {
			return errors.New("limits: want numbers from 1 to 1073741824")
		}
	}
	if h.ReceivedBytes < 0 {
		return errors.New("limits: want room for what is received")
	}
	for _, d := range []time.Duration{h.Receive, h.ReceiveUnknown, h.FirstMessage, h.Handshake, h.Idle, h.Linger} {
		if d < 0 || d%time.Millisecond != 0 {
			return errors.New("limits: want durations of at least a millisecond")
		}
	}
	return nil
}

// Resources are the limits of the process. A zero field is not known, and bounds nothing.
type Resources struct {
	// MemoryBytes is the memory that the process may use.
	MemoryBytes int64
	// Descriptors is the number of files and connections that it may have open.
	Descriptors int
}

const (
	// streamBytes and connectionBytes are what a Session stream and a connection take of memory, at most
	// about half of which goes to streams, and a quarter to connections and to what is received on them.
	streamBytes     = 24 << 10
	connectionBytes = 32 << 10
	// descriptorReserve is how many descriptors are left for what is no client's connection: segments of the
	// log, checkpoints, snapshots and backups, the connections of other servers. A sixteenth of all is left
	// if that is more.
	descriptorReserve = 64
)

// fit is the defaults of Hardening that depend on the resources.
func (r Resources) fit() Hardening {
	h := Hardening{
		Streams: defaultStreams, Connections: defaultConnections,
		ConnectionsPerAddress: defaultConnectionsPerAddress,
		Strangers:             defaultStrangers, Calls: defaultCalls, Watches: defaultWatches,
		ReceivedBytes: defaultReceivedBytes,
	}
	if m := r.MemoryBytes; m > 0 {
		h.Streams = fitting(h.Streams, m/2/streamBytes)
		h.Connections = fitting(h.Connections, m/8/connectionBytes)
		h.ReceivedBytes = max(min(h.ReceivedBytes, m/8), 4*maxRequestBytes)
	}
	if d := r.Descriptors; d > 0 {
		h.Connections = fitting(h.Connections, int64(d-r.DescriptorReserve()))
	}
	h.ConnectionsPerAddress = fitting(h.ConnectionsPerAddress, int64(h.Connections)*3/4)
	h.Strangers = fitting(h.Strangers, int64(h.Connections)/2)
	return h
}

// DescriptorReserve returns the number of descriptors that clients do not get.
func (r Resources) DescriptorReserve() int { return max(descriptorReserve, r.Descriptors/16) }

// fitting is the number, or as many as there is room for, but at least one.
func fitting(number int, room int64) int { return int(max(1, min(int64(number), room))) }

// tell says which limits the resources lead to, and warns where they are not enough for what may be wanted.
func (r Resources) tell(h Hardening, logger *slog.Logger) {
	if r == (Resources{}) {
		return
	}
	logger.Info("limits", "streams", h.Streams, "connections", h.Connections, "connections_per_address",
		h.ConnectionsPerAddress, "strangers", h.Strangers, "calls", h.Calls, "received_bytes",
		h.ReceivedBytes)
	if r.Descriptors > 0 && r.Descriptors < h.Streams {
		logger.Warn("the process may have fewer files and connections open than streams: clients that have a connection for each "+
			"stream will be refused; raise RLIMIT_NOFILE (ulimit -n, LimitNOFILE=)", "descriptors",
			r.Descriptors, "streams", h.Streams)
	}
	if r.Descriptors > 0 && h.Connections > r.Descriptors-r.DescriptorReserve() {
		logger.Warn("so many connections leave too few descriptors for the server's own files", "descriptors",
			r.Descriptors, "connections", h.Connections, "reserve", r.DescriptorReserve())
	}
}
