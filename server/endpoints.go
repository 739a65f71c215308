package server

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/raftstore"
)

// hostPort is where clients connect to; the zero value is nowhere.
type hostPort struct {
	host string
	port uint32
}

// String returns host:port, with brackets around an IPv6 address.
func (a hostPort) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// clientAddresses is where clients reach one server, for each kind of listener.
type clientAddresses struct{ plain, tls hostPort }

// addressesOfNone is the text of a server to which no clients are to be sent, because it is about to stop.
const addressesOfNone = "none"

// text is the form in which servers tell each other, such as "plain=a.example:2136,tls=a.example:2135".
func (c clientAddresses) text() string {
	var parts []string
	if c.plain != (hostPort{}) {
		parts = append(parts, "plain="+c.plain.String())
	}
	if c.tls != (hostPort{}) {
		parts = append(parts, "tls="+c.tls.String())
	}
	return strings.Join(parts, ",")
}

// parseClientAddresses reads what text wrote. What it does not know, such as a kind of listener that a later
// version has, is passed over.
func parseClientAddresses(text string) clientAddresses {
	var c clientAddresses
	for part := range strings.SplitSeq(text, ",") {
		kind, address, _ := strings.Cut(part, "=")
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || validPort(port, 1) != nil {
			continue
		}
		number, _ := strconv.Atoi(port)
		switch kind {
		case "plain":
			c.plain = hostPort{host, uint32(number)}
		case "tls":
			c.tls = hostPort{host, uint32(number)}
		}
	}
	return c
}

func (c clientAddresses) of(tls bool) hostPort {
	if tls {
		return c.tls
	}
	return c.plain
}

// endpoint is a server that discovery names.
type endpoint struct {
	node uint32 // not 0, and no other member's
	at   hostPort
}

// endpoints lists the servers that clients may use by one kind of listener, as far as members knows, which is
// ascending by id. own is this server's addresses; it is among them, the first, unless others can take its
// clients and it is leaving. No address comes twice.
func endpoints(members raftstore.Members, self uint64, own clientAddresses, tls, leaving bool) []endpoint {
	nodes := nodeNumbers(members)
	if nodes[self] == 0 { // it may not have heard of itself yet
		nodes[self] = 1
	}
	listed := []endpoint{{nodes[self], own.of(tls)}}
	for _, m := range members {
		at := parseClientAddresses(m.ClientAddress).of(tls)
		taken := slices.ContainsFunc(listed, func(e endpoint) bool { return e.at == at })
		if m.ID != self && at != (hostPort{}) && !taken {
			listed = append(listed, endpoint{nodes[m.ID], at})
		}
	}
	if leaving && len(listed) > 1 {
		return listed[1:]
	}
	return listed
}

// nodeNumbers gives every member a number of 32 bits that all servers compute alike: half of its id, or where
// that is 0 or taken by a member with a smaller id, the next free one.
func nodeNumbers(members raftstore.Members) map[uint64]uint32 {
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

// publishAddresses tells the other servers where clients reach this one.
func (s *Server) publishAddresses() { s.store.SetClientAddress(s.addresses().text()) }

// sendClientsElsewhere tells the other servers not to name this one any more, so that the clients whose
// streams end do not come back.
func (s *Server) sendClientsElsewhere(ctx context.Context) {
	if len(s.store.Members()) < 2 || !s.group.Led() {
		return
	}
	s.store.SetClientAddress(addressesOfNone)
	ctx, cancel := context.WithTimeout(ctx, leavingPatience)
	defer cancel()
	look := time.NewTicker(leaderPoll)
	defer look.Stop()
	named := func() bool {
		m, found := s.store.Members().Find(s.store.Member())
		return found && m.ClientAddress != addressesOfNone
	}
	for named() {
		select {
		case <-look.C:
		case <-ctx.Done():
			s.config.Logger.Debug("the other servers may not know yet that this one stops")
			return
		}
	}
}
