package conformance

import (
	"fmt"
	"slices"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
)

// failOver replaces the leader while the streams go on, and plays the client's part: it describes again where a watch
// got a notice without known changes. Of what is in flight nothing reaches the log, so that every open request has to
// be carried out for the new leader.
func (e *pureEnvironment) failOver() error { return e.failOverKeeping(0) }

// failOverKeeping is failOver with the first kept commands in flight carried out before the new leader takes
// over.
func (e *pureEnvironment) failOverKeeping(kept int) error {
	for _, s := range e.streams {
		s.collect()
	}
	e.world.FailOver(kept)
	for _, s := range e.streams {
		if err := s.describeAgain(); err != nil {
			return err
		}
	}
	return nil
}

// begin carries out a unary call. The leader changes while it is in flight: by turns before the log has it,
// so that it has to be carried out for the new leader, and after, so that nobody heard its outcome.
func (e *pureEnvironment) begin(build func(coordination.CallID) coordination.Command) (outcome.Outcome, error) {
	if !e.pure.FailOver || e.world.Held() {
		return e.world.Call(build), nil
	}
	e.world.Hold()
	call := e.world.Begin(build)
	e.calls++
	err := e.failOverKeeping(e.calls % 2)
	e.world.Release()
	return call.Outcome(), err
}

// describeAgain takes the notices of a leader change off the stream and installs their watches anew.
func (s *pureStream) describeAgain() error {
	var again []coordination.ClientMessage
	for _, reply := range s.stream.Replies() {
		spurious := reply.Kind == coordination.ReplyChanged && !reply.DataChanged && !reply.OwnersChanged
		at := slices.IndexFunc(s.watches,
			func(m coordination.ClientMessage) bool { return m.ReqID == reply.ReqID })
		switch {
		case reply.Kind == coordination.ReplyNone:
		case spurious && at < 0:
			return fmt.Errorf("a leader change fired a watch that was not there: request %d", reply.ReqID)
		case spurious:
			again = append(again, s.watches[at])
			s.watches = slices.Delete(s.watches, at, at+1)
		default:
			s.tell(&reply)
		}
	}
	for _, m := range again {
		request := *m.Request
		m.Request = &request
		s.rearmed[m.ReqID]++
		s.note(m)
		s.stream.Send(m)
	}
	s.collect()
	return nil
}

// note remembers a describe that may install a watch.
func (s *pureStream) note(m coordination.ClientMessage) {
	if !s.env.pure.FailOver || m.Kind != coordination.ClientSemaphore || !m.Request.WatchData &&
		!m.Request.WatchOwners {
		return
	}
	s.watches = append(s.watches, m)
}

// isRearmed reports whether a reply answers a describe that the script knows nothing of.
func (s *pureStream) isRearmed(r *coordination.Reply) bool {
	if r.Kind != coordination.ReplyResult || r.Request != coordination.RequestDescribe ||
		s.rearmed[r.ReqID] == 0 {
		return false
	}
	s.rearmed[r.ReqID]--
	return true
}
