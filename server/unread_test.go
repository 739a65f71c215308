package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/server/readiness"
	"github.com/coordd/coordd/server/sessions"
)

// TestPongsAreReadWhileTheServerIsFull holds the server up until its clients may bring nothing more. One that
// only answers pings does so in time, however long that lasts; and those that are not read get that as the reason,
// instead of a failure for a pong that the server has not read.
func TestPongsAreReadWhileTheServerIsFull(t *testing.T) {
	var clock handClock
	s, conn := startTest(t, func(c *Config) { c.hooks.Rings = &clock })
	quiet := openTest(t, t.Context(), conn, start(3_000))
	next(t, quiet)
	const streams, each = 17, 5 // of a mebibyte each: a stream may bring 4, and all 64
	writers := make([]sessionClient, streams)
	for i := range writers {
		writers[i] = openTest(t, t.Context(), conn, start(60_000))
		next(t, writers[i])
		send(t, writers[i],
			&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
				CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1,
					Name: fmt.Sprint(i), Limit: 1}}})
		next(t, writers[i])
	}
	held, release := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	defer goOn()
	holdUp(s, held, release)
	<-held
	data := make([]byte, 1<<20)
	for i, writer := range writers {
		go func() {
			for j := range uint64(each) {
				_ = writer.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
					UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: 2 + j,
						Name: fmt.Sprint(i), Data: data}}})
			}
		}()
	}
	// one that it read would have pings to answer
	eventually(t, "the server to read none of the writers", func() bool {
		unread := 0
		for _, client := range s.group.Clients() {
			if client.(*sessions.Session).Stream.Backlog().Paused {
				unread++
			}
		}
		return unread == streams
	})
	if _, waiting := s.group.RequestBytes(); waiting == 0 {
		t.Error("no stream waits for room")
	}
	if !slices.ContainsFunc(s.readiness.Issues(), func(i readiness.Issue) bool {
		return i.Kind == readiness.IssueLimits && strings.Contains(i.Text, "are not read")
	}) {
		t.Errorf("the issues are %v", s.readiness.Issues())
	}
	pings := 0
	// far longer than the client's patience
	for at := time.Duration(0); at < 20*time.Second; at += 100 * time.Millisecond {
		clock.turn(100 * time.Millisecond)
		send(t, quiet, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{
			Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 7}}})
		for answered := false; !answered; { // then it has heard what came before
			m := receive(t, quiet)
			switch {
			case m.GetPong() != nil:
				answered = true
			case m.GetPing() != nil:
				pings++
				send(t, quiet,
					&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
						Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
			default:
				t.Fatalf("after %v and %d pings: %v", at, pings, m)
			}
		}
	}
	if pings < 10 {
		t.Errorf("%d pings came", pings)
	}
	goOn()
	for i, writer := range writers {
		for {
			m, err := writer.Recv()
			if err != nil {
				t.Fatalf("writer %d: %v", i, err)
			}
			if f := m.GetFailure(); f != nil {
				if f.GetStatus().String() != "UNAVAILABLE" {
					t.Errorf("writer %d: %v", i, f)
				}
				break
			}
			if m.GetUpdateSemaphoreResult().GetReqId() == 1+each {
				break
			}
		}
	}
}
