package faults

import (
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/wire"
)

// This file is about what the server says on a Session stream: what of it the client gets.

// SendMsg sends what the server says, if the client is to hear it.
func (s *stream) SendMsg(m any) error {
	select {
	case s.sending <- struct{}{}:
	case <-s.gone:
		return errEnded
	}
	defer func() { <-s.sending }()
	reply, err := replyOf(m)
	if err != nil {
		return err
	}
	switch s.verdict(reply) {
	case hide:
		return nil
	case cut:
		s.logReply(reply, true)
		s.endLocked(status.New(codes.Unavailable, "the answer has been lost by a fault"))
		return errEnded
	}
	if started := reply.GetSessionStarted(); started != nil {
		s.attached(started.GetSessionId())
	}
	s.logReply(reply, false)
	return s.ServerStream.SendMsg(m)
}

// attached takes note of the session, and repeats what is to be repeated: the client does not know yet, so
// the server has it before what the client says.
func (s *stream) attached(session uint64) {
	s.mutex.Lock()
	s.session = session
	key := sessionKey{s.node, session}
	s.mutex.Unlock()
	s.repeat(s.set.takeRepeats(key))
}

// replyOf is a message of the server as a message: a large one comes in pieces.
func replyOf(m any) (*serverMessage, error) {
	switch reply := m.(type) {
	case *serverMessage:
		return reply, nil
	case *wire.Reply:
		return reply.Message(), nil
	}
	large := m.(*wire.Large)
	var encoded []byte
	for _, piece := range large.Pieces() {
		encoded = append(encoded, piece...)
	}
	reply := new(serverMessage)
	return reply, proto.Unmarshal(encoded, reply)
}

// verdict is the decision about a message of the server.
type verdict uint8

const (
	pass verdict = iota
	hide
	cut
)

func (s *stream) verdict(reply *serverMessage) verdict {
	v := s.decideReply(reply)
	if v == pass && s.tap != nil && !s.tap.Reply(reply) {
		return hide
	}
	return v
}

func (s *stream) decideReply(reply *serverMessage) verdict {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	kind, id := answered(reply)
	request := asked{kind, id}
	result := reply.GetAcquireSemaphorePending() == nil
	switch {
	case s.mode != speaking:
		return hide
	case kind != "" && s.lost[request]:
		return cut
	case kind != "" && s.unasked[request]:
		if result {
			delete(s.unasked, request)
		}
		return hide
	}
	if described := reply.GetDescribeSemaphoreResult(); described != nil {
		if name, asked := s.asking[id]; asked && described.GetWatchAdded() {
			s.watches = put(s.watches, name, id)
		}
		delete(s.asking, id)
	}
	if changed := reply.GetDescribeSemaphoreChanged(); changed != nil {
		return s.fired(changed.GetReqId())
	}
	return pass
}

// fired takes note of a watch that has fired. The mutex is held.
func (s *stream) fired(id uint64) verdict {
	for name, watch := range s.watches {
		if watch == id {
			delete(s.watches, name)
		}
	}
	if s.told[id] {
		delete(s.told, id)
		return hide
	}
	return pass
}

// WriteStatus implements listen.StatusWriter: it ends the RPC for the server, as far as faults let it.
func (s *stream) WriteStatus(end *status.Status) error {
	s.mutex.Lock()
	if s.mode == silent {
		s.ending = end
	}
	if s.mode != speaking {
		s.mutex.Unlock()
		return nil
	}
	s.mode = over
	s.mutex.Unlock()
	s.logEnd(end)
	if s.tap != nil {
		s.tap.Ended(end)
	}
	return s.finish.WriteStatus(end)
}

// endLocked ends the RPC for a fault, whatever the server thinks of it.
func (s *stream) endLocked(end *status.Status) {
	s.mutex.Lock()
	before := s.mode
	s.mode = over
	s.mutex.Unlock()
	switch before {
	case over:
		return
	case silent:
		close(s.voice)
	}
	s.logEnd(end)
	if s.tap != nil {
		s.tap.Ended(end)
	}
	_ = s.finish.WriteStatus(end) // it is gone already, if that fails
}

func (s *stream) endUnavailable(why string) {
	s.endLocked(status.New(codes.Unavailable, why))
}

// awaitVoice returns when the stream need not be kept open for a client that is to hear nothing.
func (s *stream) awaitVoice() {
	s.mutex.Lock()
	mute := s.mode == silent
	s.mutex.Unlock()
	if !mute {
		return
	}
	select {
	case <-s.voice:
	case <-s.ServerStream.Context().Done():
	}
}

// maxUnanswered bounds the requests of a stream whose semaphore is remembered for their answers.
const maxUnanswered = 1000

// logMessage remembers a message of this stream.
func (s *stream) logMessage(m Message) {
	s.mutex.Lock()
	m.Node, m.Session = s.node, s.session
	s.mutex.Unlock()
	m.Server, m.Stream, m.Client = s.server, s.number, s.client
	s.set.messages.add(m)
}

// logReply remembers an answer, which the client gets unless it is lost.
func (s *stream) logReply(reply *serverMessage, lost bool) {
	if !s.set.messages.watched.Load() {
		return
	}
	what, code := wordOf(reply)
	if what == "" {
		return
	}
	m := Message{From: FromServer, What: what, Lost: lost}
	if code != Ydb.StatusIds_SUCCESS && code != Ydb.StatusIds_STATUS_CODE_UNSPECIFIED {
		if m.Status = code.String(); what != failed {
			m.What = "not " + what
		}
	}
	for _, issue := range reply.GetFailure().GetIssues() {
		m.Text = issue.GetMessage()
	}
	if kind, id := answered(reply); kind != "" {
		s.mutex.Lock()
		m.Name = s.names[asked{kind, id}]
		if what != "pending" {
			delete(s.names, asked{kind, id})
		}
		s.mutex.Unlock()
	}
	s.logMessage(m)
}

// named remembers the semaphore of a request until it is answered.
func (s *stream) named(q *Request) {
	if !s.set.messages.watched.Load() {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if q.Name != "" && len(s.names) < maxUnanswered {
		s.names = put(s.names, asked{q.Kind, q.ReqID}, q.Name)
	}
}

// logEnd remembers the end of a stream.
func (s *stream) logEnd(end *status.Status) {
	if end.Code() != codes.OK {
		s.logMessage(Message{From: FromServer, What: "end", Status: end.Code().String(), Text: end.Message()})
	}
}

// refuse answers a request in the server's place.
func (s *stream) refuse(q *Request, r Refusal) error {
	if !r.Ends {
		return s.say(refusal(q.Kind, q.ReqID, r))
	}
	if q.Kind == Start {
		pause := time.NewTimer(startPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-s.ServerStream.Context().Done():
		}
	}
	s.failWith(r)
	return errEnded
}

// say sends a message that is not the server's.
func (s *stream) say(m *serverMessage) error {
	select {
	case s.sending <- struct{}{}:
	case <-s.gone:
		return errEnded
	}
	defer func() { <-s.sending }()
	return s.sayLocked(m)
}

// sayLocked is say for a caller that holds sending.
func (s *stream) sayLocked(m *serverMessage) error {
	s.mutex.Lock()
	mute := s.mode != speaking
	s.mutex.Unlock()
	if mute {
		return nil
	}
	s.logReply(m, false)
	return s.ServerStream.SendMsg(m)
}

// failWith ends the stream with a Failure, or without one if the client does not read.
func (s *stream) failWith(r Refusal) {
	patience := time.NewTimer(sendPatience)
	defer patience.Stop()
	select {
	case s.sending <- struct{}{}:
		_ = s.sayLocked(failure(r))
		s.endLocked(status.New(codes.OK, ""))
		<-s.sending
	case <-patience.C:
		s.endUnavailable(linkFailure)
	case <-s.gone:
	}
}

func issues(r Refusal) []*Ydb_Issue.IssueMessage {
	if r.Text == "" {
		return nil
	}
	return []*Ydb_Issue.IssueMessage{{Message: r.Text}}
}

func failure(r Refusal) *serverMessage {
	return &serverMessage{Response: &Ydb_Coordination.SessionResponse_Failure_{
		Failure: &Ydb_Coordination.SessionResponse_Failure{Status: r.Status, Issues: issues(r)}}}
}

// refusal is the result of a request that was refused.
func refusal(kind Kind, id uint64, r Refusal) *serverMessage {
	m := &serverMessage{}
	code, list := Ydb.StatusIds_StatusCode(r.Status), issues(r)
	switch kind {
	case Acquire:
		m.Response = &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_{
			AcquireSemaphoreResult: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult{
				ReqId: id, Status: code, Issues: list}}
	case Release:
		m.Response = &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_{
			ReleaseSemaphoreResult: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult{
				ReqId: id, Status: code, Issues: list}}
	case Create:
		m.Response = &Ydb_Coordination.SessionResponse_CreateSemaphoreResult_{
			CreateSemaphoreResult: &Ydb_Coordination.SessionResponse_CreateSemaphoreResult{
				ReqId: id, Status: code, Issues: list}}
	case Update:
		m.Response = &Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_{
			UpdateSemaphoreResult: &Ydb_Coordination.SessionResponse_UpdateSemaphoreResult{
				ReqId: id, Status: code, Issues: list}}
	case Delete:
		m.Response = &Ydb_Coordination.SessionResponse_DeleteSemaphoreResult_{
			DeleteSemaphoreResult: &Ydb_Coordination.SessionResponse_DeleteSemaphoreResult{
				ReqId: id, Status: code, Issues: list}}
	case Describe:
		m.Response = &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_{
			DescribeSemaphoreResult: &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult{
				ReqId: id, Status: code, Issues: list}}
	}
	return m
}
