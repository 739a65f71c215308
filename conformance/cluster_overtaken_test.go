package conformance

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// mostReplays bounds the replays of a script that leader changes cut short where they may.
const mostReplays = 20

// replayThrough replays a script. It does so again if a leader change ended one of its streams where it may:
// while a describe was unanswered and a later request of the stream was sent, because its effect would show
// if that was executed; or while a request was unanswered and a stop was sent, because what came of it is
// forgotten with the session. Where the leader is to stay it does so again whatever came, if the leader, or
// the others' connections to it, did not stay: a busy machine may give it no processor for longer than the
// others wait.
func replayThrough(ctx context.Context, target Target, script *Script) (r Result, replays int) {
	for ; ; replays++ {
		watched, before := &overtakenTarget{Target: target}, reignOf(target, script)
		outcome, err := Run(ctx, watched, script)
		r = Result{Script: script, Outcome: outcome, Err: err}
		v := r.Verdict()
		if v != Differs && v != Broken || replays == mostReplays ||
			!watched.cut.Load() && reignOf(target, script) == before {
			return r, replays
		}
	}
}

// reignOf is the reign on a target, for a script during which that is to stay; the same at all times on others.
func reignOf(target Target, script *Script) reign {
	if c, is := target.(*clusterTarget); is && !c.changesLeader() && !script.restarts() {
		return c.reign()
	}
	return reign{}
}

// overtakenTarget watches the streams of one script.
type overtakenTarget struct {
	Target
	cut atomic.Bool // a stream was ended by a leader change where it may
}

// Open implements Target.
func (o *overtakenTarget) Open(ctx context.Context, name string, limits coordination.Limits) (Environment, error) {
	env, err := o.Target.Open(ctx, name, limits)
	if err != nil {
		return nil, err
	}
	return &overtakenEnvironment{Environment: env, target: o, streams: make(map[Stream]*overtakenStream)}, nil
}

type overtakenEnvironment struct {
	Environment
	target  *overtakenTarget
	streams map[Stream]*overtakenStream // by the stream below
}

// Connect implements Environment.
func (e *overtakenEnvironment) Connect(ctx context.Context, options StreamOptions) (Stream, error) {
	below, err := e.Environment.Connect(ctx, options)
	if err != nil {
		return nil, err
	}
	s := &overtakenStream{Stream: below}
	e.streams[below] = s
	return s, nil
}

// Next implements Environment.
func (e *overtakenEnvironment) Next(ctx context.Context) (Event, bool) {
	event, ok := e.Environment.Next(ctx)
	if !ok {
		return event, false
	}
	s := e.streams[event.Stream]
	event.Stream = s
	if event.Message != nil && s.hear(event.Message) {
		e.target.cut.Store(true)
	}
	return event, true
}

// overtakenStream records the requests of a stream that are not answered, in the order of sending.
type overtakenStream struct {
	Stream
	open []sentRequest
}

type sentRequest struct {
	arm arm // "" for a stop
	id  uint64
}

// Send implements Stream.
func (s *overtakenStream) Send(message []byte) error {
	request := &sessionRequest{}
	if err := proto.Unmarshal(message, request); err == nil {
		if sent, ok := sentOf(request); ok {
			s.open = append(s.open, sent)
		}
	}
	return s.Stream.Send(message)
}

func sentOf(m *sessionRequest) (sentRequest, bool) {
	switch {
	case m.GetAcquireSemaphore() != nil:
		return sentRequest{armAcquire, m.GetAcquireSemaphore().GetReqId()}, true
	case m.GetReleaseSemaphore() != nil:
		return sentRequest{armRelease, m.GetReleaseSemaphore().GetReqId()}, true
	case m.GetCreateSemaphore() != nil:
		return sentRequest{armCreate, m.GetCreateSemaphore().GetReqId()}, true
	case m.GetUpdateSemaphore() != nil:
		return sentRequest{armUpdate, m.GetUpdateSemaphore().GetReqId()}, true
	case m.GetDeleteSemaphore() != nil:
		return sentRequest{armDelete, m.GetDeleteSemaphore().GetReqId()}, true
	case m.GetDescribeSemaphore() != nil:
		return sentRequest{armDescribe, m.GetDescribeSemaphore().GetReqId()}, true
	case m.GetSessionStop() != nil:
		return sentRequest{}, true
	}
	return sentRequest{}, false
}

// hear takes a message, and reports whether it ends the stream as a leader change may.
func (s *overtakenStream) hear(m *sessionReply) bool {
	if f := m.GetFailure(); f != nil {
		return f.GetStatus() == Ydb.StatusIds_UNAVAILABLE && len(f.GetIssues()) == 1 &&
			f.GetIssues()[0].GetMessage() == coordination.LinkFailure.Text && s.mayBeCut()
	}
	if a, id, ok := Answered(m); ok && m.GetAcquireSemaphorePending() == nil {
		if at := slices.Index(s.open, sentRequest{a, id}); at >= 0 {
			s.open = slices.Delete(s.open, at, at+1)
		}
	}
	return false
}

func (s *overtakenStream) mayBeCut() bool {
	for i, sent := range s.open {
		for _, later := range s.open[i+1:] {
			if later.arm == "" || sent.arm == armDescribe && later.arm != armDescribe {
				return true
			}
		}
	}
	return false
}

// TestMayBeCut checks where a leader change may end a stream.
func TestMayBeCut(t *testing.T) {
	describe, create, stop := sentRequest{armDescribe, 1}, sentRequest{armCreate, 2}, sentRequest{}
	for _, test := range []struct {
		open []sentRequest
		want bool
	}{
		{nil, false},
		{[]sentRequest{describe}, false},
		{[]sentRequest{stop}, false},
		{[]sentRequest{create, create}, false},
		{[]sentRequest{create, describe}, false},
		{[]sentRequest{describe, describe}, false},
		{[]sentRequest{describe, create}, true},
		{[]sentRequest{create, stop}, true},
		{[]sentRequest{describe, stop}, true},
	} {
		if got := (&overtakenStream{open: test.open}).mayBeCut(); got != test.want {
			t.Errorf("%v: %v", test.open, got)
		}
	}
}
