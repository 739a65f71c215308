package raftstore

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/roster"
	"github.com/coordd/coordd/raftstore/settings"
)

// transport sends to the other members: see peers.Transport, which tests replace.
type transport interface {
	Send(m *pb.Message)
	Release()
	SendSnapshot(to uint64, next func(context.Context) (*peerpb.Chunk, error), done func(error)) bool
	Update(conf membership.Conf)
	Learn(id uint64, address string)
	Renew(id uint64)
	Shut(ids []uint64)
	Reopen()
	Announce()
	Announced(client string) bool
	Connected(id uint64) (up, tried bool)
	Conn(id uint64, urgent bool) *grpc.ClientConn
	RenewBulk(id uint64)
	Close()
}

// Peers is the part of the store that deals with other members. Its methods may be called from any goroutine.
type Peers struct {
	network  peers.Network  // nil if there can be no other members
	out      transport      // the same
	roster   *roster.Roster // the same
	unlisten func()
	inbox    *inbox
	client   atomic.Pointer[string] // see SetClientAddress
	refused  refused
	unlike   settings.Unlike
}

// Enabled reports whether this member was started with an address for others.
func (p *Peers) Enabled() bool { return p.out != nil }

// Conn returns one of the two connections to another member, for peers.Ask and peers.Open; nil while it is not
// connected. Over the urgent one go heartbeats and the answers to them: calls over it must be small. It is closed when
// the members connect anew.
func (p *Peers) Conn(member uint64, urgent bool) *grpc.ClientConn {
	if p.out == nil {
		return nil
	}
	return p.out.Conn(member, urgent)
}

// Renew replaces the connection to a member that is not urgent: a firewall may have forgotten the present one.
func (p *Peers) Renew(member uint64) { p.out.RenewBulk(member) }

// Crowded returns the last time at which there were too many connections to the address for other members, the zero
// time if there never were.
func (p *Peers) Crowded() time.Time {
	if network, ok := p.network.(*peers.GRPC); ok {
		return network.Crowded()
	}
	return time.Time{}
}

// KeptOut reports whether this member takes part in nothing for now: it has to ask other members first for the
// members of the cluster. why is known once too few of those that it knows turn out to answer, for people. If
// all of them have been replaced, Cluster.Join with the address of a present member mends it.
func (p *Peers) KeptOut() (out bool, why string) {
	if p.roster == nil || p.roster.Open() {
		return false, ""
	}
	return true, p.roster.Why()
}

// SetClientAddress changes the address for clients that this member announces in the place of
// Cluster.ClientAddress. The other members learn it from the streams that this one has opened to them, with or
// without a leader; the leader also writes an address into the log, for members that have not heard this one
// since their start. "" means that this member does not serve clients yet, and NoClients that it does not any
// more. Longer texts than 600 bytes count as "". Call it after Start.
func (p *Peers) SetClientAddress(address string) {
	p.client.Store(&address)
	p.announce()
}

// Announced reports whether the present client address has been sent to every member that takes
// messages from this one.
func (p *Peers) Announced() bool {
	if p.out == nil {
		return true
	}
	return p.out.Announced(*p.client.Load())
}

// Unlike describes, for each member that was given other settings than this one, the differences.
func (p *Peers) Unlike() map[uint64]string { return p.unlike.Found() }

// refused logs the callers that were refused, each kind of refusal at a rate of its own.
type refused struct{ kinds lograte.ByKey }

func (r *refused) tell(log *slog.Logger, now time.Time, server, address string, err error) {
	why := peers.Cause(err)
	level := slog.LevelWarn
	if errors.Is(err, roster.ErrUnknownHere) { // so it is with every server that was just added
		level = slog.LevelInfo
	}
	if ok, hidden := r.kinds.Allow(server+"\x00"+why, now); ok {
		log.Log(context.Background(), level, "refused a server", "server", server, "address",
			lograte.Cut(address), "why", why, lograte.Suppressed, hidden)
	}
}

// Refusals of other members.
var (
	ErrRemoved      = peers.ErrRemoved
	ErrEmptied      = peers.ErrEmptied
	ErrOtherCluster = peers.ErrOtherCluster
)

// NoClients is the client address of a member that wants no further clients, because it is about to stop.
const NoClients = "none"

// clientAddressIn returns the client address that a member's header announces.
func clientAddressIn(h *peerpb.Header) string {
	if address := h.GetClientAddress(); len(address) <= clientTextMax {
		return address
	}
	return ""
}
