package server

import (
	"cmp"
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

// way names the listener by which a client reaches a server. SDKs drop the endpoints of another one than their own.
type way uint8

const (
	byPlain way = iota
	byTLS
	byProxy // by TLS that ends at a proxy, whose connections the plain listener accepts
)

// clientAddresses is where clients reach one server. Of plain and proxied one at most is set, see Config.Advertise.
type clientAddresses struct{ plain, tls, proxied hostPort }

// text is the form in which servers tell each other, such as "plain=a.example:2136,tls=a.example:2135".
func (c clientAddresses) text() string {
	var parts []string
	if c.plain != (hostPort{}) {
		parts = append(parts, "plain="+c.plain.String())
	}
	if c.tls != (hostPort{}) {
		parts = append(parts, "tls="+c.tls.String())
	}
	if c.proxied != (hostPort{}) {
		parts = append(parts, "proxied="+c.proxied.String())
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
		case "proxied":
			c.proxied = hostPort{host, uint32(number)}
		}
	}
	return c
}

func (c clientAddresses) of(w way) hostPort {
	switch w {
	case byTLS:
		return c.tls
	case byProxy:
		return c.proxied
	}
	return c.plain
}

// endpoint is a server that discovery names.
type endpoint struct {
	node uint32 // not 0, and no other member's
	at   hostPort
}

// endpoints lists the servers that clients may reach in one way, as far as members knows, which is ascending by id. own is this server's addresses; it is among them, the first, unless others can take its
// clients and it is leaving. No address comes twice.
func endpoints(members raftstore.Members, self uint64, own clientAddresses, by way,
	leaving bool) []endpoint {
	nodes := nodeNumbers(members)
	if nodes[self] == 0 { // it may not have heard of itself yet
		nodes[self] = 1
	}
	listed := []endpoint{{nodes[self], own.of(by)}}
	for _, m := range members {
		at := parseClientAddresses(m.ClientAddress).of(by)
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

// listPatience bounds how long a call of ListEndpoints waits for a complete list. The SDKs wait 5 s or longer
// for an answer.
const listPatience = 4 * time.Second

// publishAddresses announces to the other servers where clients reach this one.
func (s *Server) publishAddresses() { s.store.SetClientAddress(s.advertised.text()) }

// knowsEndpoints reports whether this server knows the addresses of all servers that it is connected to.
func (s *Server) knowsEndpoints() bool {
	return !slices.ContainsFunc(s.store.Members(), func(m raftstore.Member) bool { return m.Awaited })
}

// awaitEndpoints waits until this server has been ready and knows the addresses of all servers that it is
// connected to, but no longer than listPatience or until the caller's deadline.
func (s *Server) awaitEndpoints(ctx context.Context) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, cmp.Or(s.config.listPatience, listPatience))
	defer cancel()
	select {
	case <-s.lookout.reached:
		awaitState(ctx, s.knowsEndpoints)
	case <-ctx.Done():
	case <-s.lookout.ctx.Done():
	}
}

// awaitState waits until holds reports true, and reports whether it did before ctx ended.
func awaitState(ctx context.Context, holds func() bool) bool {
	look := time.NewTicker(leaderPoll)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// sendClientsElsewhere announces to the other servers that they must not name this one any more, so that the
// clients whose streams end do not come back.
func (s *Server) sendClientsElsewhere(ctx context.Context) {
	s.store.SetClientAddress(raftstore.NoClients)
	ctx, cancel := context.WithTimeout(ctx, leavingPatience)
	defer cancel()
	if !awaitState(ctx, s.store.ClientAddressSent) {
		s.config.Logger.Debug("the other servers may not know yet that this one stops")
	}
}
