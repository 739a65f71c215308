package rings

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// TestStopOverLeaderChange stops sessions whose leader goes before the answer comes: every stop is answered
// once, whether or not it was carried out before, and the session is gone. So is an acquire that waits.
func TestStopOverLeaderChange(t *testing.T) {
	for _, applied := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d applied", applied), func(t *testing.T) {
			w, err := New(Options{Check: true})
			if err != nil {
				t.Fatal(err)
			}
			w.Call(func(call coordination.CallID) coordination.Command {
				return &coordination.CreateNode{CallID: call, Path: []string{"local", "n"}}
			})
			s := startStream(w, 0)
			owner := startStream(w, 0)
			owner.Send(acquireLock)
			s.Send(acquireLock)
			_, session := s.kinds()
			w.Hold()
			s.Send(coordination.ClientMessage{Kind: coordination.ClientStop})
			w.FailOver(applied)
			w.Release()
			if kinds, stopped := s.kinds(); !slices.Equal(kinds,
				[]coordination.ReplyKind{coordination.ReplyStopped}) || stopped != session {
				t.Errorf("session %d: got %v about session %d", session, kinds, stopped)
			}
			if s.Ending() != coordination.EndingOK {
				t.Errorf("the stream's ending is %v", s.Ending())
			}
			again := startStream(w, session)
			if kinds, _ := again.kinds(); !slices.Equal(kinds,
				[]coordination.ReplyKind{coordination.ReplyFailure}) {
				t.Errorf("a start with the stopped session: got %v", kinds)
			}
		})
	}
}

var acquireLock = coordination.ClientMessage{Kind: coordination.ClientSemaphore, Request: &coordination.Request{
	Kind: coordination.RequestAcquire, Name: "lock", Count: coordination.Infinite, Ephemeral: true,
	TimeoutMillis: coordination.Infinite}}

func startStream(w *World, session coordination.SessionID) *Stream {
	s := w.Open(1)
	s.Send(coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{Path: "/local/n", Session: session, TimeoutMillis: 5000}})
	return s
}

// kinds are the kinds of the replies since the last call, and the last session that one of them names.
func (s *Stream) kinds() ([]coordination.ReplyKind, coordination.SessionID) {
	var kinds []coordination.ReplyKind
	var session coordination.SessionID
	for _, r := range s.Replies() {
		kinds = append(kinds, r.Kind)
		if r.Session != 0 {
			session = r.Session
		}
	}
	return kinds, session
}
