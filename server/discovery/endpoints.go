package discovery

import (
	"slices"

	"github.com/coordd/coordd/raftstore"
)

// endpoint is a server that discovery names.
type endpoint struct {
	node uint32 // not 0, and no other member's
	at   HostPort
}

// endpoints lists the servers that clients may reach in one way, as far as members knows, which is ascending by
// id. own is this server's addresses; it is among them, the first, unless others can take its clients and it is
// leaving. No address comes twice.
func endpoints(members raftstore.Members, self uint64, own Addresses, by way,
	leaving bool) []endpoint {
	nodes := NodeNumbers(members)
	if nodes[self] == 0 { // it may not have heard of itself yet
		nodes[self] = 1
	}
	listed := []endpoint{{nodes[self], own.of(by)}}
	for _, m := range members {
		at := parseAddresses(m.ClientAddress).of(by)
		taken := slices.ContainsFunc(listed, func(e endpoint) bool { return e.at == at })
		if m.ID != self && at != (HostPort{}) && !taken {
			listed = append(listed, endpoint{nodes[m.ID], at})
		}
	}
	if leaving && len(listed) > 1 {
		return listed[1:]
	}
	return listed
}

// NodeNumbers gives every member a number of 32 bits that all servers compute alike: half of its id, or where
// that is 0 or taken by a member with a smaller id, the next free one.
func NodeNumbers(members raftstore.Members) map[uint64]uint32 {
	numbers, taken := make(map[uint64]uint32), map[uint32]bool{0: true}
	for _, m := range members {
		n := uint32(m.ID)
		for taken[n] {
			n++
		}
		numbers[m.ID], taken[n] = n, true
	}
	return numbers
}
