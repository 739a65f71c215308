package openloop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
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
)

// Coordd opens sessions of a node, each on a stream of its own. A lock is a semaphore: what an earlier run has not
// released stays held until its sessions are over.
func Coordd(node string) Protocol {
	return func(c *Client, address, prefix string, sessions, connections int) error {
		streams := make([]map[uint32]*stream, connections)
		conns := make([]*conn, connections)
		for i := range conns {
			n, err := dialHTTP2(address)
			if err != nil {
				return err
			}
			conns[i], streams[i] = n, make(map[uint32]*stream)
			n.data = func(of uint32, data []byte) error { return streams[i][of].take(data) }
			n.ended = func(_ uint32, f *http2.MetaHeadersFrame) error {
				return fmt.Errorf("the server ended a stream: %v", f.Fields)
			}
			n.moreWindow = func(of uint32, by int64) { streams[i][of].window.Add(by) }
		}
		var all []*stream
		for i := range sessions {
			at := i % connections
			s := &stream{client: c, conn: conns[at], number: i, of: sessions, id: uint32(2*(i/connections) + 1),
				setup: make(chan *response, 1)}
			s.window.Store(s.conn.initial)
			streams[at][s.id] = s
			all, c.sessions = append(all, s), append(c.sessions, s)
		}
		for _, n := range conns {
			c.read(n.net, n.read)
		}
		for i, s := range all {
			if err := s.open(address, node, fmt.Sprint(prefix, "-", i)); err != nil {
				return err
			}
		}
		return nil
	}
}

// stream is a stream with a session.
type stream struct {
	client   *Client
	conn     *conn
	number   int // of so many
	of       int
	id       uint32
	window   atomic.Int64
	received []byte         // a message of which a part has come
	setup    chan *response // answers that come before the run
	sent     int            // measured requests
	frames   [2][]byte      // of an acquire and a release
	at       [2]int         // the place of the id in each
}

// open opens the stream, attaches a session and creates its semaphore.
func (s *stream) open(address, node, name string) error {
	head, err := headers(address, "/Ydb.Coordination.V1.CoordinationService/Session",
		[2]string{"x-ydb-database", "/local"})
	if err == nil {
		err = s.conn.write(frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, s.id, head), 0)
	}
	if err != nil {
		return err
	}
	answer, err := s.ask(&request{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: node, TimeoutMillis: lockMillis}}})
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
	frame, err := dataFrame(s.id, 0, m)
	if err == nil {
		err = s.write(frame)
	}
	if err != nil {
		return nil, err
	}
	select {
	case answer := <-s.setup:
		return answer, nil
	case err := <-s.client.failed:
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
		frame, err := dataFrame(s.id, 0, m)
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

// send implements session.
func (s *stream) send(int) error {
	kind := s.sent % 2
	_ = protowire.AppendVarint(s.frames[kind][:s.at[kind]], firstID+uint64(s.sent))
	s.sent++
	return s.write(s.frames[kind])
}

func (s *stream) write(frame []byte) error {
	size := int64(len(frame) - frameHead)
	if s.window.Add(-size) < 0 {
		return errWindow
	}
	return s.conn.write(frame, size)
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
		pong, err := dataFrame(s.id, 0, &request{Request: &Ydb_Coordination.SessionRequest_Pong{
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
	i := int(id-firstID)*s.of + s.number
	if id < firstID || i >= len(s.client.dues) {
		return fmt.Errorf("the server answers request %d, which was not sent", id)
	}
	s.client.answered(i)
	return nil
}
