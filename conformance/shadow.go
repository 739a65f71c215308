package conformance

import (
	"context"
	"strings"

	"google.golang.org/grpc/status"
)

// Shadow is a run that hears of a conversation instead of having it: requests are lines of a script that is being
// written, replies are handed to it. So it knows what a replay of those lines would show. It is not safe for
// concurrent use.
type Shadow struct{ run *run }

// ShadowStream is a stream of a Shadow.
type ShadowStream struct {
	run    *run
	stream *stream
}

// Line is a message as a script shows it.
type Line struct{ From, Text string }

// NewShadow makes a Shadow in which a database stands for the directory of a script.
func NewShadow(database string) *Shadow {
	return &Shadow{&run{script: &Script{Name: "recording"}, env: shadowEnvironment{database: database},
		names: newNames(false), streams: make(map[string]*stream), byConnection: make(map[Stream]*stream),
		nextReqID: firstOwnReqID}}
}

// Request notes the request that a line makes, and returns its number.
func (s *Shadow) Request(line string) (number uint64, err error) {
	q, err := parseRequest(line)
	if err == nil {
		err = s.run.request(context.Background(), q)
	}
	return s.run.nextReqID, err
}

// Stream returns the stream that a request has started under a name, nil if the script has not started it.
func (s *Shadow) Stream(name string) *ShadowStream {
	if started := s.run.streams[name]; started != nil {
		return &ShadowStream{s.run, started}
	}
	return nil
}

// Came lists what a replay would show since Forget.
func (s *Shadow) Came() []Line {
	var lines []Line
	for _, m := range s.run.came {
		lines = append(lines, Line{m.from, m.text})
	}
	return lines
}

// Forget begins a new step.
func (s *Shadow) Forget() { s.run.came = nil }

// AllAnswered reports whether no request waits for an answer that has to come.
func (s *Shadow) AllAnswered() bool { return s.run.allAnswered() }

// Forgive gives up the answers that have not come.
func (s *Shadow) Forgive() {
	for _, waiting := range s.run.streams {
		waiting.forgive()
	}
}

// Session names a session of a node.
func (s *Shadow) Session(node string, id uint64) string {
	return nodeNames{s.run.names, node}.session(id)
}

// Resolve replaces the marks that stand for order ids by their ranks, as far as these are known.
func (s *Shadow) Resolve(text string) string { return s.run.names.resolve(text) }

// Reply notes a reply on the stream.
func (s *ShadowStream) Reply(m *sessionReply) {
	s.run.handle(Event{Stream: s.stream.connection, Message: m})
}

// End notes how the stream has ended.
func (s *ShadowStream) End(end *status.Status) {
	s.run.handle(Event{Stream: s.stream.connection, Status: end})
}

// Over reports whether nothing more comes on the stream.
func (s *ShadowStream) Over() bool { return s.stream.over() }

// Ending reports whether nothing more comes on the stream but its end.
func (s *ShadowStream) Ending() bool { return s.stream.over() || s.stream.finished }

// Attached reports whether the stream has a session that the client has not stopped.
func (s *ShadowStream) Attached() bool {
	return s.stream.attached && !s.Ending() && !s.stream.stopping
}

// Step writes a step of a script: requests, and what they show.
func Step(requests []string, came []Line, anyOrder bool) string {
	var b strings.Builder
	b.WriteString(strings.Join(requests, "\n") + "\n")
	switch {
	case anyOrder:
		b.WriteString(dashesAnyOrder + "\n")
	case len(came) > 0:
		b.WriteString(dashes + "\n")
	}
	for _, m := range came {
		b.WriteString(message{m.From, m.Text}.String() + "\n")
	}
	return b.String()
}

// Answered returns the verb of the request that a reply answers, and its number; ok is false if it answers none.
func Answered(m *sessionReply) (verb string, number uint64, ok bool) {
	a, number, ok := answered(m)
	return string(a), number, ok
}

// shadowEnvironment is the environment of a Shadow: the database is the script's directory, and
// nothing happens.
type shadowEnvironment struct {
	Environment // nothing else is asked of it
	database    string
}

// Database implements Environment, as the rest does.
func (e shadowEnvironment) Database() string { return e.database }

// Directory is the database itself.
func (e shadowEnvironment) Directory() string { return e.database }

// Connect makes a stream that leads nowhere.
func (e shadowEnvironment) Connect(context.Context, StreamOptions) (Stream, error) {
	return new(deadEnd), nil
}

// deadEnd is a stream on which nothing is sent. It has a size, so that no two have one address.
type deadEnd struct{ _ byte }

// Send implements Stream, as the rest does.
func (*deadEnd) Send([]byte) error { return nil }

// CloseSend does nothing.
func (*deadEnd) CloseSend() error { return nil }

// Cancel does nothing.
func (*deadEnd) Cancel() {}
