package server

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/coordd/coordd/internal/clock"
)

// holdNothing answers unserved calls at once, for tests of what is answered.
func holdNothing(s *Server) { s.held.release() }

// TestUnservedCallsAreHeldBack: an answer comes when its time has come, and not before.
func TestUnservedCallsAreHeldBack(t *testing.T) {
	s, conn := startTest(t, nil)
	hands := new(handClock)
	s.held.clock = clock.New(hands)
	for i, method := range []string{"/Ydb.Table.V1.TableService/CreateSession", "/a.B/C",
		"/Ydb.Scheme.V1.SchemeService/NoSuch"} {
		done := make(chan error, 1)
		go func() { done <- conn.Invoke(t.Context(), method, new(emptypb.Empty), new(emptypb.Empty)) }()
		eventually(t, "the answers to be held back", func() bool { return hands.waiting() == 1 })
		hands.turn(unservedHold - 1)
		if hands.waiting() != 1 || len(done) != 0 {
			t.Errorf("%s: answered too early", method)
		}
		hands.turn(1)
		if err := <-done; (status.Code(err) == codes.OK) != (i == 0) {
			t.Errorf("%s: got %v", method, err)
		}
		if len(s.held.by) != 0 || s.held.count != 0 {
			t.Errorf("%s: something stays behind: %v", method, s.held.by)
		}
	}
	if _, err := s.held.unary(t.Context(), nil, nil,
		func(context.Context, any) (any, error) { return 1, nil }); err != nil || hands.waiting() != 0 {
		t.Error("the answer of a method that is served is held")
	}
}

// TestHeldAnswersAreBounded fills a connection and the server: beyond the bounds an answer is given at once.
// What is held goes with its call, and with the server.
func TestHeldAnswersAreBounded(t *testing.T) {
	hands := new(handClock)
	h := newHeldAnswers(clock.New(hands))
	var running sync.WaitGroup
	from := func(port int) context.Context {
		return peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{Port: port}})
	}
	hold := func(ctx context.Context) { running.Go(func() { h.hold(ctx) }) }
	held := func(want int) {
		t.Helper()
		eventually(t, "the answers to be held back", func() bool {
			h.mutex.Lock()
			defer h.mutex.Unlock()
			return h.count == want && hands.waiting() == want
		})
	}
	ctx, cancel := context.WithCancel(from(1))
	for range maxHeldPerConnection {
		hold(ctx)
	}
	held(maxHeldPerConnection)
	h.hold(from(1)) // returns at once
	for i := maxHeldPerConnection; i < maxHeld; i++ {
		hold(from(2 + i/maxHeldPerConnection))
	}
	held(maxHeld)
	h.hold(from(9_999)) // returns at once
	cancel()
	held(maxHeld - maxHeldPerConnection)
	hands.turn(unservedHold)
	held(0)
	hold(from(1))
	held(1)
	h.release()
	held(0)
	running.Wait()
	h.hold(from(1)) // returns at once
	if len(h.by) != 0 {
		t.Errorf("%d connections are remembered", len(h.by))
	}
}

// TestStopFreesHeldAnswers stops a server that holds answers back.
func TestStopFreesHeldAnswers(t *testing.T) {
	s, _ := startTest(t, nil)
	hands := new(handClock)
	s.held.clock = clock.New(hands)
	conn := connect(t, s)
	const calls = 5
	done := make(chan error, calls)
	for i := range calls {
		go func() {
			done <- conn.Invoke(t.Context(), fmt.Sprint("/a.B/C", i), new(emptypb.Empty), new(emptypb.Empty))
		}()
	}
	eventually(t, "the answers to be held back", func() bool { return hands.waiting() == calls })
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range calls {
		if err := <-done; status.Code(err) != codes.Unimplemented {
			t.Errorf("got %v", err)
		}
	}
}
