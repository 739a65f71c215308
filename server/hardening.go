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
	// maxRequestBytes bounds a message of a client, before and after it is decompressed. Those of a Session stream
	// have a semaphore's data at most, and slightly too large data should get a proper refusal.
	maxRequestBytes = 4 << 20
	// maxCallBytes is the same for calls other than Session, ModifyPermissions and UpdateData.
	maxCallBytes = 1 << 20
	// maxLoginBytes is the same for calls that need no token.
	maxLoginBytes = 4 << 10
	// maxOutboundBytes bounds the messages of a stream that wait for a client that does not read, before it is cut
	// off. It leaves room for one answer of the largest size.
	maxOutboundBytes = 2 * maxMessageBytes
	// streamWindowBytes is the part of a stream that a client may send before it is read; gRPC makes an exception for
	// a message that is larger. connectionWindowBytes is the same for all streams of a connection.
	streamWindowBytes     = 64 << 10
	connectionWindowBytes = 1 << 20
)

// Hardening bounds what a client may take of this server. Every field is inclusive; a zero field takes its
// default. docs/dev/limits.md lists all limits.
type Hardening struct {
	// StreamsPerConnection limits the open calls of one connection, Session streams above all.
	StreamsPerConnection int
	// Streams limits the Session streams of the process (coordination.md §5). Package share limits one subject's part
	// of these, of Calls and of Watches.
	Streams int
	// Connections limits the open connections, ConnectionsPerAddress those of one IP address, and Strangers those
	// without proof of identity. See listen.Connections for the evictions.
	Connections, ConnectionsPerAddress, Strangers int
	// Calls limits the calls other than Session under way at once, and Watches those that last as long as the client
	// likes: Health.Watch and reflection.
	Calls, Watches int
	// ReceivedBytes limits the memory for messages that were received and not yet worked on.
	ReceivedBytes int64
	// Receive limits the wait for the request of a call other than Session, and ReceiveUnknown does so for an unknown
	// caller where authentication is required.
	Receive, ReceiveUnknown time.Duration
	// FirstMessage limits the time of an open Session stream without a SessionStart.
	FirstMessage time.Duration
	// Handshake limits the time until a new connection is usable.
	Handshake time.Duration
	// Idle limits the time of an open connection without any call.
	Idle time.Duration
	// Linger limits the time that a stream that has ended waits for its client to read the end, and then, as after any
	// other call, the time without progress before the connection is closed.
	Linger time.Duration
	// ResetBurst limits the streams that a connection may reset at once, and ResetsPerSecond the further ones of each
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

	// minPingGap is the shortest time between a client's pings of a connection (surface.md §6); after a few pings too
	// many it is closed.
	minPingGap = time.Second
	// keepaliveTime is the silence of a connection after which it is pinged, and keepaliveTimeout the limit for the
	// answer.
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

// ofConnections returns the limits of connections. Where authentication is required, a connection is proved by a call
// of a known caller.
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
	// streamBytes and connectionBytes are the memory of a Session stream and of a connection. About half of all goes
	// to streams at most, and a quarter to connections and the messages received on them.
	streamBytes     = 24 << 10
	connectionBytes = 32 << 10
	// descriptorReserve descriptors, or a sixteenth of all if that is more, are left for the server's own use:
	// segments of the log, checkpoints, snapshots and backups, the connections of other servers.
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

// It logs the limits that follow from the resources, and warns where they may not suffice.
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
