package raftstore

import (
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// Member describes one member of the cluster.
type Member = membership.Member

// Members lists the cluster as one of its members knows it.
type Members = membership.Members

// IDText is the id of a cluster or of a member as people read and type it, and as files and hashes have it:
// 16 hexadecimal digits.
func IDText(id uint64) string { return membership.IDText(id) }

// memberView is what the turn shows to others.
type memberView struct {
	conf    membership.Conf
	leader  uint64
	leading bool
	term    uint64
	fresh   bool // nothing was ever committed here
	match   map[uint64]uint64
	active  map[uint64]bool
	full    map[uint64]bool
	clients map[uint64]string // by member heard since the start: the client address it has announced last
	open    map[uint64]bool   // members whose urgent stream is open
	waits   map[uint64]bool   // members that may still be awaited, see Member.Awaited
}

// NoClients is the client address of a member that wants no further clients, because it is about to stop.
const NoClients = "none"

// clientAddressIn returns the client address that a member's header announces.
func clientAddressIn(h *peerpb.Header) string {
	if address := h.GetClientAddress(); len(address) <= clientTextMax {
		return address
	}
	return ""
}
