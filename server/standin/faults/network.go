package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// pair is two servers, the one with the lower number first.
type pair struct{ a, b int }

func pairOf(i, j int) pair { return pair{min(i, j), max(i, j)} }

// network is the connections between the servers of a stand-in.
type network struct {
	numbers map[string]int // of servers, by the address for their peers
	cuts    map[pair]chan struct{}
	conns   map[*conn]pair
}

// Peer registers a server's peer address before any server is started.
func (s *Set) Peer(server int, address string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.network.numbers = put(s.network.numbers, address, server)
}

// DialPeer returns the function with which a server connects to the others (raftstore.Cluster.Dial).
func (s *Set) DialPeer(server int) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		s.mutex.Lock()
		between := pairOf(server, s.network.numbers[address])
		cut := s.network.cuts[between]
		s.mutex.Unlock()
		if cut != nil {
			select {
			case <-cut:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		var dialer net.Dialer
		dialed, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: dialed, set: s, closed: make(chan struct{})}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.network.conns = put(s.network.conns, c, between)
		if s.network.cuts[between] != nil { // meanwhile
			c.stopPassing()
		}
		return c, nil
	}
}

// Partition blocks all traffic between two servers, in both directions, without an error at either end. Clients reach
// both. Heal and Reset end it, and then the delayed messages arrive.
func (s *Set) Partition(i, j int) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	known := make(map[int]bool)
	for _, number := range s.network.numbers {
		known[number] = true
	}
	if len(known) == 0 {
		return errors.New(
			"there is one server, and so nothing between servers; a Go test gives the stand-in Servers(3)")
	}
	if !known[i] || !known[j] || i == j {
		return fmt.Errorf("servers %d and %d: want two of the %d that there are", i, j, len(known))
	}
	between := pairOf(i, j)
	if s.network.cuts[between] == nil {
		s.network.cuts = put(s.network.cuts, between, make(chan struct{}))
	}
	for c, of := range s.network.conns {
		if of == between {
			c.stopPassing()
		}
	}
	return nil
}

// Heal takes every Partition back.
func (s *Set) Heal() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.healLocked()
}

func (s *Set) healLocked() {
	for _, cut := range s.network.cuts {
		close(cut)
	}
	clear(s.network.cuts)
	for c := range s.network.conns {
		c.letPass()
	}
}
