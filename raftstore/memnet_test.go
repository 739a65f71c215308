package raftstore

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// endpointOf returns a store as the other members see it.
func endpointOf(s *Store) endpoint { return endpoint{s} }

// acceptStream does what a network does with the header of a stream of messages.
func acceptStream(s *Store, h *peerpb.Header, certificate *x509.Certificate) error {
	if err := endpointOf(s).Judge(h, certificate, true); err != nil {
		return err
	}
	endpointOf(s).Opened(h)
	return nil
}

// sendSnapshot does what a network does with a snapshot.
func sendSnapshot(s *Store, h *peerpb.Header, certificate *x509.Certificate,
	next func() (*peerpb.Chunk, error)) error {
	if err := endpointOf(s).Judge(h, certificate, false); err != nil {
		return err
	}
	return endpointOf(s).ReceiveSnapshot(h, next)
}

// memNet is a network in memory whose faults follow a seed.
type memNet struct {
	mu       sync.Mutex
	rng      *rand.Rand
	servers  map[string]peers.Server
	streams  map[*memStream]bool
	cut      map[[2]string]bool // from, to: nothing gets through
	mute     map[string]bool    // who gets no streams, only questions and answers
	loss     float64            // share of frames lost
	delayMax time.Duration
}

func newMemNet(seed uint64) *memNet {
	return &memNet{
		rng: rand.New(rand.NewPCG(seed, 1)), servers: map[string]peers.Server{},
		streams: map[*memStream]bool{}, cut: map[[2]string]bool{}, mute: map[string]bool{},
	}
}

// at returns the network as one address sees it.
func (n *memNet) at(address string) *memEnd { return &memEnd{n, address} }

// setCut cuts or heals one direction.
func (n *memNet) setCut(from, to string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]string{from, to}] = cut
}

// setMute lets no stream reach an address any more, or again.
func (n *memNet) setMute(address string, mute bool) {
	n.mu.Lock()
	n.mute[address] = mute
	var ended []*memStream
	for s := range n.streams {
		if mute && s.to == address {
			ended = append(ended, s)
		}
	}
	n.mu.Unlock()
	for _, s := range ended {
		s.reset()
	}
}

func (n *memNet) isMute(address string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mute[address]
}

func (n *memNet) setFaults(loss float64, delayMax time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.delayMax = loss, delayMax
}

// fate decides what becomes of one frame.
func (n *memNet) fate(from, to string) (in peers.Server, lost bool, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	in = n.servers[to]
	lost = n.cut[[2]string{from, to}] || n.rng.Float64() < n.loss
	if n.delayMax > 0 {
		delay = time.Duration(n.rng.Int64N(int64(n.delayMax)))
	}
	return in, lost, delay
}

var errNoRoute = errors.New("nobody listens there")

type memEnd struct {
	net     *memNet
	address string
}

var _ peers.Network = (*memEnd)(nil)

func (e *memEnd) Listen(in peers.Server) (func(), error) {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.net.servers[e.address] = in
	return func() {
		e.net.mu.Lock()
		delete(e.net.servers, e.address)
		var mine []*memStream
		for s := range e.net.streams {
			if s.to == e.address {
				mine = append(mine, s)
			}
		}
		e.net.mu.Unlock()
		for _, s := range mine {
			s.reset()
		}
	}, nil
}

func (e *memEnd) Hello(ctx context.Context, address string, req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	in, lost, _ := e.net.fate(e.address, address)
	_, back, _ := e.net.fate(address, e.address)
	if in == nil || lost || back {
		return nil, errNoRoute
	}
	return in.Hello(req, e.certificate())
}

func (e *memEnd) Messages(ctx context.Context, address string, header *peerpb.Header) (peers.Stream, error) {
	in, lost, _ := e.net.fate(e.address, address)
	if in == nil || lost || e.net.isMute(address) {
		return nil, errNoRoute
	}
	if err := in.Judge(header, e.certificate(), true); err != nil {
		return nil, err
	}
	in.Opened(header)
	s := &memStream{net: e.net, from: e.address, to: address, in: in, header: header,
		frames: make(chan *peerpb.Frame, 64), done: make(chan struct{}), gone: make(chan struct{})}
	e.net.mu.Lock()
	e.net.streams[s] = true
	e.net.mu.Unlock()
	stop := context.AfterFunc(ctx, s.reset)
	s.stop = stop
	go s.run()
	return s, nil
}

// memStream delivers frames in order, late or never.
type memStream struct {
	net      *memNet
	from, to string
	in       peers.Server
	header   *peerpb.Header
	frames   chan *peerpb.Frame
	once     sync.Once
	done     chan struct{}
	gone     chan struct{}
	stop     func() bool
	mu       sync.Mutex
	err      error
}

func (s *memStream) Send(f *peerpb.Frame) error {
	select {
	case s.frames <- proto.CloneOf(f):
		return nil
	case <-s.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil {
			return s.err
		}
		return errNoRoute
	}
}

func (s *memStream) Accepted() <-chan struct{} { return closedChannel }

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// certificate returns the certificate that a server at this end presents: it is made for the host of its address.
func (e *memEnd) certificate() *x509.Certificate {
	host, _, _ := net.SplitHostPort(e.address)
	return &x509.Certificate{DNSNames: []string{host}}
}

func (s *memStream) Conn() *grpc.ClientConn { return nil }

func (s *memStream) Ended() <-chan struct{} { return s.done }

func (s *memStream) reset() { s.once.Do(func() { close(s.done) }) }

func (s *memStream) Close() {
	s.stop()
	s.reset()
	<-s.gone
}

func (s *memStream) run() {
	defer close(s.gone)
	defer func() {
		s.net.mu.Lock()
		delete(s.net.streams, s)
		_, _ = s.net.servers[s.to], s
		s.net.mu.Unlock()
		if _, lost, _ := s.net.fate(s.from, s.to); !lost {
			s.in.Lost(s.header)
		}
	}()
	for {
		select {
		case <-s.done:
			return
		case f := <-s.frames:
			in, lost, delay := s.net.fate(s.from, s.to)
			if lost {
				continue
			}
			if in != s.in {
				s.reset()
				return
			}
			select {
			case <-time.After(delay):
			case <-s.done:
				return
			}
			if err := s.in.Receive(s.header, f); err != nil {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
				s.reset()
			}
		}
	}
}

func (e *memEnd) Snapshot(ctx context.Context, address string, header *peerpb.Header,
	next func() (*peerpb.Chunk, error)) error {
	in, lost, _ := e.net.fate(e.address, address)
	if in == nil || lost || e.net.isMute(address) {
		return errNoRoute
	}
	if err := in.Judge(header, e.certificate(), false); err != nil {
		return err
	}
	return in.ReceiveSnapshot(header, func() (*peerpb.Chunk, error) {
		c, err := next()
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		if _, lost, _ := e.net.fate(e.address, address); lost {
			return nil, errNoRoute
		}
		return proto.CloneOf(c), nil
	})
}
