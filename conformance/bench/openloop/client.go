package openloop

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/load"
)

type (
	request  = Ydb_Coordination.SessionRequest
	response = Ydb_Coordination.SessionResponse
)

const (
	// firstID is the smallest request id of a measured request. The ids from there up to 2^35 take five bytes in a
	// message, so one can be put in the place of another.
	firstID = 1 << 28
	idBytes = 5
	// sessionMillis is the session timeout.
	sessionMillis = 30_000
	// setupPatience bounds how long the server may take to answer while the sessions are opened.
	setupPatience = 10 * time.Second
	// endPatience bounds the wait for the answer to the last request.
	endPatience = 5 * time.Second
	// frameHead is the length of HTTP/2's head of a frame, messageHead of gRPC's head of a message.
	frameHead, messageHead = 9, 5
)

// Client sends the requests of one run: in turns over its sessions, each of which acquires and releases a semaphore
// of its own. It speaks HTTP/2 and gRPC itself, and never limits what the server may send, since gRPC's client takes
// several times the processor time for a request.
type Client struct {
	conns   []*conn
	streams []*stream

	dues   []time.Duration
	clock  Clock
	failed chan error // the first error of each connection

	mutex sync.Mutex
	took  load.Times
}

// conn is a connection. Its mutex is held while a frame is written.
type conn struct {
	client  *Client
	net     net.Conn
	framer  *http2.Framer
	mutex   sync.Mutex
	window  atomic.Int64 // bytes that may be sent
	initial int64        // of the same, for each stream
	streams map[uint32]*stream
}

// stream is a stream with a session.
type stream struct {
	conn     *conn
	number   int // among all
	id       uint32
	window   atomic.Int64
	received []byte         // a message of which a part has come
	setup    chan *response // answers that come before the run
	sent     int            // measured requests
	frames   [2][]byte      // of an acquire and a release
	at       [2]int         // the place of the id in each
}

// Open opens sessions of a node on connections to a plaintext address. Their semaphores have names with a prefix
// that no other run uses: what an earlier one has not released stays held until its sessions are over.
func Open(address, node, prefix string, sessions, connections int) (*Client, error) {
	c := &Client{failed: make(chan error, connections)}
	for range connections {
		conn, err := c.dial(address)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	for i := range sessions {
		conn := c.conns[i%connections]
		s := &stream{conn: conn, number: i, id: uint32(2*(i/connections) + 1), setup: make(chan *response, 1)}
		s.window.Store(conn.initial)
		conn.streams[s.id] = s
		c.streams = append(c.streams, s)
	}
	for _, conn := range c.conns {
		go func() { c.failed <- conn.read() }()
	}
	for i, s := range c.streams {
		if err := s.open(address, node, fmt.Sprint(prefix, "-", i)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() error {
	var err error
	for _, conn := range c.conns {
		err = errors.Join(err, conn.net.Close())
	}
	return err
}

// Run sends the requests that are due from now on, and returns how long they took and how late they were sent.
// Requests that the server does not answer within some seconds of the last one are counted.
func (c *Client) Run(dues []time.Duration) (took, late load.Times, unanswered int, err error) {
	clock, err := StartMonotonic()
	if err != nil {
		return nil, nil, 0, err
	}
	defer clock.Stop()
	c.dues, c.clock = dues, clock
	late, err = Drive(clock, dues, func(i int) error { return c.streams[i%len(c.streams)].send() })
	for end := clock.Now() + endPatience; err == nil; {
		c.mutex.Lock()
		took = slices.Clone(c.took)
		c.mutex.Unlock()
		if unanswered = len(dues) - len(took); unanswered == 0 || clock.Now() > end {
			break
		}
		select {
		case err = <-c.failed:
		case <-time.After(10 * time.Millisecond):
		}
	}
	return took, late, unanswered, err
}

func (c *Client) dial(address string) (*conn, error) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	n := &conn{client: c, net: to, framer: http2.NewFramer(to, bufio.NewReader(to)),
		streams: make(map[uint32]*stream), initial: 65_535}
	n.window.Store(65_535)
	n.framer.SetReuseFrames()
	n.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = to.Write([]byte(http2.ClientPreface))
	err = errors.Join(err,
		n.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32}),
		n.framer.WriteWindowUpdate(0, math.MaxInt32-65_535))
	if err == nil {
		err = n.readSettings()
	}
	if err != nil {
		_ = to.Close()
	}
	return n, err
}

// readSettings reads what a server sends first.
func (n *conn) readSettings() error {
	frame, err := n.framer.ReadFrame()
	if err != nil {
		return err
	}
	settings, is := frame.(*http2.SettingsFrame)
	if !is {
		return fmt.Errorf("the server begins with %v", frame)
	}
	if v, set := settings.Value(http2.SettingInitialWindowSize); set {
		n.initial = int64(v)
	}
	return n.framer.WriteSettingsAck()
}

// open opens the stream, attaches a session and creates its semaphore.
func (s *stream) open(address, node, name string) error {
	var head strings.Builder
	encoder := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"},
		{":path", "/Ydb.Coordination.V1.CoordinationService/Session"}, {":authority", address},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"x-ydb-database", "/local"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	s.conn.mutex.Lock()
	err := s.conn.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: []byte(head.String()),
		EndHeaders: true})
	s.conn.mutex.Unlock()
	if err != nil {
		return err
	}
	answer, err := s.ask(&request{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: node, TimeoutMillis: sessionMillis}}})
	if err == nil && answer.GetSessionStarted() == nil {
		err = fmt.Errorf("the start of a session was answered %v", answer)
	}
	if err != nil {
		return err
	}
	answer, err = s.ask(&request{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: name, Limit: 1}}})
	if err == nil && answer.GetCreateSemaphoreResult().GetStatus() != Ydb.StatusIds_SUCCESS {
		err = fmt.Errorf("create %s: %v", name, answer)
	}
	return errors.Join(err, s.encode(name))
}

// ask sends a message before the run, and waits for the answer.
func (s *stream) ask(m *request) (*response, error) {
	frame, err := s.frame(m)
	if err == nil {
		err = s.write(frame)
	}
	if err != nil {
		return nil, err
	}
	select {
	case answer := <-s.setup:
		return answer, nil
	case err := <-s.conn.client.failed:
		return nil, err
	case <-time.After(setupPatience):
		return nil, errors.New("the server does not answer")
	}
}

// encode makes the frames of the measured requests.
func (s *stream) encode(name string) error {
	for i, m := range []*request{
		{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: firstID, Name: name, Count: 1,
				TimeoutMillis: math.MaxUint64}}},
		{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
			ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{ReqId: firstID, Name: name}}},
	} {
		frame, err := s.frame(m)
		if err != nil {
			return err
		}
		if s.at[i] = strings.Index(string(frame), string(protowire.AppendVarint(nil, firstID))); s.at[i] < 0 {
			return errors.New("a request without its id")
		}
		s.frames[i] = frame
	}
	return nil
}

// frame returns a message in a frame of its own.
func (s *stream) frame(m *request) ([]byte, error) {
	text, err := proto.Marshal(m)
	size := messageHead + len(text)
	frame := []byte{byte(size >> 16), byte(size >> 8), byte(size), byte(http2.FrameData), 0}
	frame = binary.BigEndian.AppendUint32(frame, s.id)
	frame = append(frame, 0) // not compressed
	return append(binary.BigEndian.AppendUint32(frame, uint32(len(text))), text...), err
}

// send sends the next measured request of the stream, in one write.
func (s *stream) send() error {
	kind := s.sent % 2
	_ = protowire.AppendVarint(s.frames[kind][:s.at[kind]], firstID+uint64(s.sent))
	s.sent++
	return s.write(s.frames[kind])
}

func (s *stream) write(frame []byte) error {
	size := int64(len(frame) - frameHead)
	if s.window.Add(-size) < 0 || s.conn.window.Add(-size) < 0 {
		return errors.New("the server takes no more: its flow control's window is used up")
	}
	s.conn.mutex.Lock()
	defer s.conn.mutex.Unlock()
	_, err := s.conn.net.Write(frame)
	return err
}

// read reads until the connection ends.
func (n *conn) read() error {
	for {
		frame, err := n.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			err = n.streams[f.StreamID].take(f.Data())
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				n.window.Add(int64(f.Increment))
			} else {
				n.streams[f.StreamID].window.Add(int64(f.Increment))
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				n.mutex.Lock()
				err = n.framer.WritePing(true, f.Data)
				n.mutex.Unlock()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				err = fmt.Errorf("the server ended a stream: %v", f.Fields)
			}
		case *http2.GoAwayFrame, *http2.RSTStreamFrame:
			err = fmt.Errorf("the server sent %v", f)
		}
		if err != nil {
			return err
		}
	}
}

// take reads the messages that are complete with some more bytes.
func (s *stream) take(data []byte) error {
	s.received = append(s.received, data...)
	for len(s.received) >= messageHead {
		size := messageHead + int(binary.BigEndian.Uint32(s.received[1:]))
		if len(s.received) < size {
			break
		}
		m := new(response)
		if err := proto.Unmarshal(s.received[messageHead:size], m); err != nil {
			return err
		}
		s.received = s.received[:copy(s.received, s.received[size:])]
		if err := s.answer(m); err != nil {
			return err
		}
	}
	return nil
}

// answer handles a message of the server.
func (s *stream) answer(m *response) error {
	switch arm := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_Ping:
		pong, err := s.frame(&request{Request: &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: arm.Ping.GetOpaque()}}})
		if err != nil {
			return err
		}
		return s.write(pong)
	case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
		if r := arm.AcquireSemaphoreResult; r.GetAcquired() {
			return s.done(r.GetReqId())
		}
	case *Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_:
		if r := arm.ReleaseSemaphoreResult; r.GetReleased() {
			return s.done(r.GetReqId())
		}
	case *Ydb_Coordination.SessionResponse_SessionStarted_, *Ydb_Coordination.SessionResponse_CreateSemaphoreResult_:
		s.setup <- m
		return nil
	}
	return fmt.Errorf("the server sent %v", m)
}

// done counts a measured request that was answered.
func (s *stream) done(id uint64) error {
	c := s.conn.client
	i := int(id-firstID)*len(c.streams) + s.number
	if id < firstID || i >= len(c.dues) {
		return fmt.Errorf("the server answers request %d, which was not sent", id)
	}
	took := c.clock.Now() - c.dues[i]
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.took = append(c.took, took)
	return nil
}
