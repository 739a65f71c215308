package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/client"
	"github.com/coordd/coordd/internal/testserver"
)

// sdk is the program conformance/bench/sdkload beside servers that are processes: two sessions through the unmodified
// Go SDK, on a coordination node of their own, of which the history knows nothing.
type sdk struct {
	world   *World
	started chan struct{}       // closed once process is set
	process *testserver.Process // nil if it was not started

	mutex   sync.Mutex
	tenures []check.Tenure
	written map[string]uint64 // last acknowledged update
	steps   int64
}

const (
	sdkHost           = "10.0.2.3"
	sdkNode           = "/local/sdk"
	sdkShared         = "sdk-shared" // a semaphore
	sdkSharedLimit    = 2
	sdkSessionTimeout = 12 * time.Second
	sdkConnects       = time.Second // patience
	// sdkMargin is the time by which tenures may overlap: the program notes a message when it runs, which on a busy
	// machine is later than when it came. It is far below a lease.
	sdkMargin = 200 * time.Millisecond
)

// startSDK makes addresses of servers for the program, and starts it once a server has made its node.
func (w *World) startSDK(program string) error {
	s := &sdk{world: w, written: map[string]uint64{}, started: make(chan struct{})}
	w.sdk = s
	var doors []string
	for first := range w.servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		doors = append(doors, l.Addr().String())
		go accept(l, func(c net.Conn) { w.leadIn(c, first) })
	}
	home := strconv.Itoa(w.plan.Chance("sdk").IntN(len(doors)))
	go func() {
		defer close(s.started)
		err := s.insist(s.prepare)
		if err == nil {
			s.process, err = testserver.Start(testserver.Config{Program: program, OpenStdin: true, Line: s.take,
				Log: filepath.Join(w.dir, "log-sdk"), Args: []string{"-servers", strings.Join(doors, ","), "-node",
					sdkNode, "-home", home, "-seed", fmt.Sprint(w.plan.Seed), "-session-timeout",
					sdkSessionTimeout.String()}})
		}
		if err != nil {
			w.do(func() { w.violation("the program of the SDK was not started: %v", err) })
		}
	}()
	return nil
}

// leadIn connects a client of the SDK to a server, or to the next one that takes connections.
func (w *World) leadIn(near net.Conn, first int) {
	defer near.Close()
	for i := range w.servers {
		ctx, cancel := context.WithTimeout(w.over, sdkConnects)
		far, err := w.net.Dial(ctx, sdkHost, w.servers[(first+i)%len(w.servers)].clientAddress())
		cancel()
		if err == nil {
			join(near, far)
			return
		}
	}
}

// insist calls do with connections to one server after the other until it succeeds.
func (s *sdk) insist(do func(context.Context, *grpc.ClientConn) error) error {
	for begun, i := time.Now(), 0; ; i++ {
		conn, err := client.Connect(environment{s.world}, administratorHost, i%len(s.world.servers))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), callPatience)
		err = do(ctx, conn)
		cancel()
		_ = conn.Close() // do has its answer
		if err == nil || time.Since(begun) > s.world.plan.Settle.Std() {
			return err
		}
	}
}

func (s *sdk) open(ctx context.Context, conn *grpc.ClientConn) (*raw.Session, error) {
	return raw.Open(ctx, conn, &raw.Start{Path: sdkNode, TimeoutMillis: uint64(sdkSessionTimeout.Milliseconds())})
}

func (s *sdk) prepare(ctx context.Context, conn *grpc.ClientConn) error {
	if err := raw.CreateNode(ctx, conn, sdkNode); err != nil && !strings.Contains(err.Error(), "ALREADY_EXISTS") {
		return err
	}
	session, err := s.open(ctx, conn)
	if err != nil {
		return err
	}
	return session.Create(sdkShared, sdkSharedLimit)
}

// take judges a line of the program: an event of conformance/bench/sdkload.
func (s *sdk) take(line string) {
	var e struct {
		Kind, Worker, Name, Text     string
		Session, Count, Order, Value uint64
		From, Until, Silence         int64
	}
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		s.world.do(func() { s.world.violation("the program of the SDK: %v: %s", err, line) })
		return
	}
	s.mutex.Lock()
	switch e.Kind {
	case "held":
		s.steps += 2
		s.tenures = append(s.tenures, check.Tenure{Name: e.Name, Session: e.Session, Count: e.Count, Order: e.Order,
			From: time.Duration(e.From), Until: time.Duration(e.Until)})
	case "updated":
		s.steps++
		s.written[e.Name] = e.Value
	case "acked":
		s.steps++
	}
	s.mutex.Unlock()
	switch {
	case e.Kind == "problem":
		s.world.do(func() { s.world.violation("SDK, %s, session %d: %s", e.Worker, e.Session, e.Text) })
	case e.Kind == "expired" && e.Silence < sdkSessionTimeout.Nanoseconds():
		s.world.do(func() {
			s.world.violation("SDK: session %d of %s expired %v after it had heard from a server", e.Session, e.Worker,
				time.Duration(e.Silence))
		})
	}
}

// finish ends the program once it has made steps, and judges what it believed and wrote.
func (s *sdk) finish() {
	w := s.world
	if <-s.started; s.process == nil {
		return
	}
	begun := s.made()
	for healed := time.Now(); s.made() < begun+stepsAfterHealing; time.Sleep(50 * time.Millisecond) {
		if time.Since(healed) > w.plan.Settle.Std() {
			w.do(func() { w.violation("the SDK's sessions have made no step in %v after all faults", w.plan.Settle) })
			break
		}
	}
	_ = s.process.Stdin.Close()
	select {
	case <-s.process.Ended():
	case <-time.After(w.plan.Settle.Std()):
		s.process.Quit()
	}
	code := s.process.ExitCode()
	err := check.Tenures(s.tenures, sdkLimit, sdkMargin)
	lost := s.insist(s.compare)
	w.do(func() {
		w.counts["steps of the SDK"] = s.made()
		if code != 0 {
			w.violation("the program of the SDK ended with code %d: %s", code, s.process.LogTail())
		}
		if err != nil {
			w.violation("SDK: %v", err)
		}
		if lost != nil {
			w.violation("SDK: %v", lost)
		}
	})
}

func (s *sdk) made() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.steps
}

func sdkLimit(name string) uint64 {
	if name == sdkShared {
		return sdkSharedLimit
	}
	return 1
}

// compare reads the values whose updates were acknowledged.
func (s *sdk) compare(ctx context.Context, conn *grpc.ClientConn) error {
	session, err := s.open(ctx, conn)
	if err != nil {
		return err
	}
	for name, written := range s.written {
		d, err := session.Describe(name, false)
		if err != nil {
			return err
		}
		if got, err := strconv.ParseUint(string(d.GetData()), 10, 64); err != nil || got < written {
			return fmt.Errorf("%s holds %q, %d was acknowledged", name, d.GetData(), written)
		}
	}
	return nil
}
