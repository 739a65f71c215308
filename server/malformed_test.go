package server

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme/outcome"
)

const (
	// malformedVariable sets the number of malformed streams of TestMalformedStreams, and malformedSeedVariable their
	// seed.
	malformedVariable     = "MALFORMED_STREAMS"
	malformedSeedVariable = "MALFORMED_SEED"

	goodSessions = 50
	goodBytes    = 256 << 10 // of data with the lock of each
	// briefTimeoutMillis is the session timeout of malformed streams that get as far as a session.
	briefTimeoutMillis = 100
)

// malformedKind is one way to misbehave on a connection of its own. hangs reports that the connection stays silent
// from then on; without it the server must answer a ping afterwards, or have closed the connection.
type malformedKind struct {
	name  string
	hangs bool
	run   func(c *frameClient, r *rand.Rand) error
}

// afterHeaders is a kind that opens a Session stream first.
func afterHeaders(name string, run func(c *frameClient, r *rand.Rand) error) malformedKind {
	return malformedKind{name: name, run: func(c *frameClient, r *rand.Rand) error {
		if err := c.headers(1, false, callHeaders(sessionMethod)); err != nil {
			return err
		}
		return run(c, r)
	}}
}

func noise(r *rand.Rand, most int) []byte {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// malformedKinds is reliability.md §8, "Frames" and "Load shapes", as far as one connection can show it.
func malformedKinds() []malformedKind {
	brief := framed(startMessage(briefTimeoutMillis))
	bomb := gzipBomb()
	var oneBomb sync.Mutex // each takes as much memory as the largest message
	kinds := []malformedKind{
		{name: "no HTTP/2", hangs: true, run: func(c *frameClient, r *rand.Rand) error {
			_, err := c.Write(append([]byte("GET / HTTP/1.1\r\n\r\n"), noise(r, 300)...))
			return err
		}},
		{name: "random frames", hangs: true, run: func(c *frameClient, r *rand.Rand) error {
			for range 1 + r.IntN(20) {
				err := c.framer.WriteRawFrame(http2.FrameType(r.IntN(12)), http2.Flags(r.IntN(256)),
					r.Uint32N(6), noise(r, 200))
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "truncated frame", hangs: true, run: func(c *frameClient, _ *rand.Rand) error {
			_, err := c.Write([]byte{0, 0, 100, 0, 0, 0, 0, 0, 1, 7, 7})
			return err
		}},
		{name: "frame too large", hangs: true, run: func(c *frameClient, _ *rand.Rand) error {
			return c.framer.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<14+1))
		}},
		{name: "headers that never end", run: func(c *frameClient, _ *rand.Rand) error {
			err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			for range 1000 {
				if err == nil {
					err = c.framer.WriteContinuation(1, false, nil)
				}
			}
			return err
		}, hangs: true},
		{name: "wrong headers", run: func(c *frameClient, r *rand.Rand) error {
			return c.headers(1, r.IntN(2) == 0, [][]string{
				{":method", "GET", ":path", "/", ":scheme", "http"},
				{":method", "POST", ":path", sessionMethod, ":scheme", "http", "content-type", "text/plain"},
				callHeaders("/no/such"), callHeaders("nothing"),
				callHeaders(sessionMethod, "grpc-timeout", "for ever"),
				callHeaders(sessionMethod, "grpc-encoding", "deflate"),
				callHeaders(sessionMethod, "x-big-bin", "###"),
			}[r.IntN(7)])
		}},
		{name: "window overflow", run: func(c *frameClient, _ *rand.Rand) error {
			return errorsOf(c.framer.WriteWindowUpdate(0, 1<<31-1), c.framer.WriteWindowUpdate(0, 1<<31-1))
		}},
		{name: "pings and settings", run: func(c *frameClient, _ *rand.Rand) error {
			for i := range 100 {
				if err := errorsOf(c.framer.WritePing(false, [8]byte{byte(i)}),
					c.framer.WriteSettings()); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "reset storm", run: func(c *frameClient, _ *rand.Rand) error {
			for id := uint32(1); id < 100; id += 2 {
				if err := errorsOf(c.headers(id, false, callHeaders(sessionMethod)), c.data(id, false, brief),
					c.reset(id)); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "compressed bomb", run: func(c *frameClient, _ *rand.Rand) error {
			oneBomb.Lock()
			defer oneBomb.Unlock()
			err := errorsOf(c.headers(1, false, callHeaders(sessionMethod, "grpc-encoding", "gzip")),
				writePieces(c, prefixed(1, uint32(len(bomb)), bomb)))
			if err != nil {
				return err
			}
			return c.await(1, http2.FrameHeaders)
		}},
		{name: "slow reader", run: func(c *frameClient, _ *rand.Rand) error {
			if err := errorsOf(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize,
				Val: 0}),
				c.headers(1, false, callHeaders(sessionMethod)),
				c.data(1, false, framed(startMessage(10*briefTimeoutMillis)))); err != nil {
				return err
			}
			for i := range 200 {
				if err := c.data(1, false, framed(acquire(uint64(i), "slow", nil))); err != nil {
					return err
				}
			}
			return nil
		}},
		afterHeaders("random message", func(c *frameClient, r *rand.Rand) error {
			message := noise(r, 500)
			return c.data(1, false, prefixed(byte(r.IntN(3)), uint32(len(message)), message))
		}),
		afterHeaders("truncated protobuf", func(c *frameClient, r *rand.Rand) error {
			message := brief[5:][:1+r.IntN(len(brief)-6)]
			return c.data(1, false, prefixed(0, uint32(len(message)), message))
		}),
		afterHeaders("truncated message", func(c *frameClient, r *rand.Rand) error {
			return c.data(1, true, brief[:r.IntN(len(brief))])
		}),
		afterHeaders("length of 2^31", func(c *frameClient, _ *rand.Rand) error {
			if err := c.data(1, false, prefixed(0, 1<<31, brief)); err != nil {
				return err
			}
			return c.await(1, http2.FrameHeaders)
		}),
		afterHeaders("byte by byte, never whole", func(c *frameClient, _ *rand.Rand) error {
			for i := range brief[:len(brief)-1] {
				if err := c.data(1, false, brief[i:i+1]); err != nil {
					return err
				}
			}
			return c.await(1, http2.FrameHeaders) // the first message is overdue
		}),
		afterHeaders("byte by byte", func(c *frameClient, _ *rand.Rand) error {
			for i := range brief {
				if err := c.data(1, false, brief[i:i+1]); err != nil {
					return err
				}
			}
			return c.awaitAnswer(1) // started
		}),
		afterHeaders("half-closed", func(c *frameClient, _ *rand.Rand) error {
			return errorsOf(c.data(1, true, brief), c.await(1, http2.FrameHeaders))
		}),
		afterHeaders("data after the end", func(c *frameClient, _ *rand.Rand) error {
			return errorsOf(c.data(1, true, brief), c.data(1, false, brief))
		}),
		afterHeaders("first message is no start", func(c *frameClient, _ *rand.Rand) error {
			return errorsOf(c.data(1, false, framed(acquire(1, "a", nil))), c.await(1, http2.FrameHeaders))
		}),
		afterHeaders("started twice", func(c *frameClient, _ *rand.Rand) error {
			return errorsOf(c.data(1, false, brief), c.data(1, false, brief), c.await(1, http2.FrameHeaders))
		}),
		afterHeaders("10,000 unknown fields", func(c *frameClient, _ *rand.Rand) error {
			message := append(bytes.Clone(brief[5:]), bytes.Repeat([]byte{0xf8, 0x7f, 0x01}, 10_000)...)
			return errorsOf(writePieces(c, prefixed(0, uint32(len(message)), message)), c.awaitAnswer(1))
		}),
	}
	return kinds
}

// errorsOf is the first error of several steps, all of which have been taken.
func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// writePieces sends more data than fits a frame.
func writePieces(c *frameClient, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 1<<14)
		if err := c.data(1, false, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// gzipBomb is compressed data of a size that fits HTTP/2's first window, and unfolds to more than the largest
// message.
func gzipBomb() []byte {
	const members = 16 // a file may have several; to compress a small one is quick
	var member bytes.Buffer
	w, _ := gzip.NewWriterLevel(&member, gzip.BestCompression)
	_, _ = w.Write(make([]byte, maxRequestBytes/members+1))
	_ = w.Close()
	return bytes.Repeat(member.Bytes(), members)
}

// zlibBomb is the same of what gRPC calls deflate.
func zlibBomb() []byte {
	var bomb bytes.Buffer
	w := zlib.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, maxRequestBytes+1))
	_ = w.Close()
	return bomb.Bytes()
}

// goodSession holds a lock while others misbehave, and works now and then.
type goodSession struct {
	name    string
	stream  sessionClient
	id      uint64
	send    sync.Mutex
	answers chan *Ydb_Coordination.SessionResponse
	rounds  int
}

func newGoodSession(t *testing.T, ctx context.Context, conn *grpc.ClientConn, name string) *goodSession {
	t.Helper()
	g := &goodSession{name: name, stream: openTest(t, ctx, conn, start(600_000)),
		answers: make(chan *Ydb_Coordination.SessionResponse, 1)}
	g.id = receive(t, g.stream).GetSessionStarted().GetSessionId()
	go g.listen()
	if r := g.ask(acquire(1, name, make([]byte, goodBytes))); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("%s: %v", name, r)
	}
	return g
}

// listen answers pings and hands on everything else, until the stream ends.
func (g *goodSession) listen() {
	defer close(g.answers)
	for {
		m, err := g.stream.Recv()
		if err != nil {
			return
		}
		if ping := m.GetPing(); ping != nil {
			g.write(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
				Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}})
			continue
		}
		g.answers <- m
	}
}

func (g *goodSession) write(m *Ydb_Coordination.SessionRequest) {
	g.send.Lock()
	defer g.send.Unlock()
	_ = g.stream.Send(m) // a failure is seen by listen
}

func (g *goodSession) ask(m *Ydb_Coordination.SessionRequest) *Ydb_Coordination.SessionResponse {
	g.write(m)
	return <-g.answers
}

// work takes and gives back a second lock.
func (g *goodSession) work() error {
	g.rounds++
	if r := g.ask(acquire(2, g.name+"/work", nil)); !r.GetAcquireSemaphoreResult().GetAcquired() {
		return fmt.Errorf("%s, round %d: acquire answered by %v", g.name, g.rounds, r)
	}
	release := &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{ReqId: 3,
			Name: g.name + "/work"}}}
	if r := g.ask(release); !r.GetReleaseSemaphoreResult().GetReleased() {
		return fmt.Errorf("%s, round %d: release answered by %v", g.name, g.rounds, r)
	}
	return nil
}

// holds checks that the session still has its lock.
func (g *goodSession) holds() error {
	describe := &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: 4, Name: g.name,
			IncludeOwners: true}}}
	r := g.ask(describe)
	if owners := r.GetDescribeSemaphoreResult().GetSemaphoreDescription().GetOwners(); len(owners) != 1 ||
		owners[0].GetSessionId() != g.id {
		return fmt.Errorf("%s: session %d is not the owner: %v", g.name, g.id, r)
	}
	return nil
}

// malformedRun misbehaves on many connections at once.
type malformedRun struct {
	t     *testing.T
	s     *Server
	seed  uint64
	kinds []malformedKind
	good  []*goodSession
}

// streams runs so many malformed streams, and has a good session work after each tenth.
func (m *malformedRun) streams(number int) {
	const workers = 8
	var next atomic.Int64
	var done sync.WaitGroup
	for worker := range workers {
		done.Add(1)
		go func() {
			defer done.Done()
			for i := int(next.Add(1)) - 1; i < number; i = int(next.Add(1)) - 1 {
				m.one(i)
				if i%10 == 0 {
					// Each worker has good sessions of its own, so that nobody else speaks on them.
					mine := m.good[worker+workers*(i/10%(goodSessions/workers))]
					if err := mine.work(); err != nil {
						m.t.Errorf("seed %d, after stream %d: %v", m.seed, i, err)
						return
					}
				}
			}
		}()
	}
	done.Wait()
}

func (m *malformedRun) one(i int) {
	r := rand.New(rand.NewPCG(m.seed, uint64(i)))
	kind := m.kinds[i%len(m.kinds)]
	c, err := dialFrames(m.s.Addr().String())
	if err != nil {
		m.t.Errorf("seed %d, stream %d: %v", m.seed, i, err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitMax))
	err = kind.run(c, r)
	if err == nil && !kind.hangs {
		err = c.ping()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		m.t.Errorf("seed %d, stream %d, %s: the server does not answer", m.seed, i, kind.name)
	}
}

// settled reports whether nothing is left of the malformed streams: their streams, sessions and goroutines.
func (m *malformedRun) settled(goroutines int) bool {
	if len(m.s.group.Clients()) != goodSessions || runtime.NumGoroutine() > goroutines {
		return false // and there is no need to look at all rows, which is dear
	}
	sessions := 0
	_, err := m.s.group.Read(context.Background(), func(machine *coordination.Machine) outcome.Outcome {
		for _, row := range machine.AllRows() {
			if row.Key().Kind == coordination.RowSession {
				sessions++
			}
		}
		return outcome.Done()
	})
	return err == nil && sessions == goodSessions
}

// heap is the memory in use after garbage has been collected, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // pools keep what they have for one collection
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func number(t *testing.T, variable string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestMalformedStreams opens streams that break every rule while good sessions hold locks. None of the good
// ones may be disturbed, and nothing of the bad ones may be left.
func TestMalformedStreams(t *testing.T) {
	streams, seed := int(number(t, malformedVariable, 132)), number(t, malformedSeedVariable, 1)
	s, _ := startTest(t, func(c *Config) {
		c.InMemory, c.DataDir = false, t.TempDir()
		// the log's memory is bounded, but grows for longer than this test runs
		c.hooks.Log = func(log *raftstore.Config) { log.TailBytes = 1 << 10 }
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := &malformedRun{t: t, s: s, seed: seed, kinds: malformedKinds()}
	for i := range 5 {
		conn, err := grpc.NewClient(s.Addr().String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for j := range goodSessions / 5 {
			m.good = append(m.good, newGoodSession(t, ctx, conn, fmt.Sprint("good", i, "-", j)))
		}
	}
	s.sessions.Policy.FirstMessageMillis = 50 // from here on
	goroutines := runtime.NumGoroutine()
	m.streams(2 * len(m.kinds)) // what is made once and kept
	eventually(t, "nothing to be left of the malformed streams", func() bool { return m.settled(goroutines) })
	before := heap()

	m.streams(streams)
	eventually(t, "nothing to be left of the malformed streams", func() bool { return m.settled(goroutines) })
	after := heap()
	if after > before+before/20 {
		t.Errorf("%d bytes are in use, %d before", after, before)
	}
	t.Logf("%d streams, seed %d: %d bytes in use before, %d after, %d goroutines", streams, seed, before,
		after, goroutines)
	for _, g := range m.good {
		if err := g.holds(); err != nil {
			t.Error(err)
		}
	}
	if n := s.panics.Count(); n != 0 {
		t.Errorf("%d panics", n)
	}
}
