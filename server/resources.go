package server

import (
	"log/slog"
)

// Resources are what the process may use. A zero field is not known, and bounds nothing.
type Resources struct {
	// MemoryBytes is how much memory the process may use.
	MemoryBytes int64
	// Descriptors is how many files and connections it may have open.
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

// DescriptorReserve is how many descriptors are kept from clients.
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
