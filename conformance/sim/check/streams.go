package check

import (
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/coordination"
)

func (j *judge) open(place int, e *Opened) {
	j.newest[e.Client] = e.Stream
	j.streams[e.Stream] = &stream{number: e.Stream, client: e.Client, path: e.Path, opened: place, started: never,
		ended: never, byID: make(map[uint64]*request), pings: make(map[uint64]time.Duration)}
}

func (j *judge) sent(place int, at time.Duration, e *Sent) {
	s := j.streams[e.Stream]
	if ping := e.Request.GetPing(); ping != nil {
		s.pings[ping.GetOpaque()] = at
		return
	}
	switch r := requestOf(e.Request); r.Kind {
	case "": // a pong
	case model.Start:
		s.asked, s.timeout = at, time.Duration(r.TimeoutMillis)*time.Millisecond
	default:
		q := &request{Request: r, stream: s, sequence: coordination.Sequence(len(s.requests) + 1), place: place, at: at}
		s.requests = append(s.requests, q)
		s.byID[r.ReqID] = q
		j.order = append(j.order, q)
	}
}

func (j *judge) got(place int, at time.Duration, e *Got) {
	s := j.streams[e.Stream]
	switch arm := e.Message.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_Ping:
		return
	case *Ydb_Coordination.SessionResponse_Pong:
		if sent, known := s.pings[arm.Pong.GetOpaque()]; known {
			j.prove(s, place, sent)
		}
		return
	case *Ydb_Coordination.SessionResponse_SessionStarted_:
		s.started, s.session = place, arm.SessionStarted.GetSessionId()
		j.prove(s, place, s.asked)
		key := sessionKey{s.path, s.session}
		j.sessions[key] = append(j.sessions[key], s)
		return
	case *Ydb_Coordination.SessionResponse_Failure_:
		s.failure = model.ReplyOf(e.Message).Text
		return
	}
	r := model.ReplyOf(e.Message)
	q := s.byID[r.ReqID]
	if q == nil {
		j.report(at, "answers", "stream %d got an answer to no request: %+v", s.number, r)
		return
	}
	q.got = append(q.got, got{r, place, at})
	if r.Kind == model.Result && !(r.To == model.Acquire && len(q.got) > 1) {
		j.prove(s, place, q.at)
	}
}

// prove takes a sign of life. While a client opens another stream, it does not know which one has its session.
func (j *judge) prove(s *stream, place int, sent time.Duration) {
	if j.newest[s.client] == s.number {
		s.proofs = append(s.proofs, proof{place, sent})
	}
}

func (j *judge) end(place int, e *Ended) {
	if s := j.streams[e.Stream]; s.ended == never {
		s.ended, s.abandoned = place, e.Abandoned
	}
}
