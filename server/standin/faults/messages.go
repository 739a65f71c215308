package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc/status"
)

// Message is a message between a client and the stand-in, or an order, for a chart of both sides.
type Message struct {
	Number uint64    `json:"number"` // from 1
	At     time.Time `json:"at"`
	From   Side      `json:"from"`
	// What is the kind of a request, the name of an order, or a word for an answer, such as "acquired".
	What    string `json:"what"`
	Server  int    `json:"server,omitempty"`
	Stream  uint64 `json:"stream,omitempty"` // as in Request
	Client  string `json:"client,omitempty"`
	Node    string `json:"node,omitempty"`
	Session uint64 `json:"session,omitempty"`
	Name    string `json:"name,omitempty"` // of the semaphore or the resource
	// Description is the session's, of a start.
	Description string `json:"description,omitempty"`
	// Status is that of an answer, if it is no success.
	Status string `json:"status,omitempty"`
	// Text is the text of a failure, or the arguments of an order.
	Text string `json:"text,omitempty"`
	// Fault is the order whose fault a request has met. Lost marks an answer that a fault kept from the client.
	Fault string `json:"fault,omitempty"`
	Lost  bool   `json:"lost,omitempty"`
	// Result is the answer to an order, Error its refusal.
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Side is the sender of a Message.
type Side string

// The sides. An order comes from a test or a person.
const (
	FromClient Side = "client"
	FromServer Side = "server"
	FromOrder  Side = "order"
)

const (
	// maxMessages bounds the remembered messages, and maxMessageText each text of one.
	maxMessages    = 200
	maxMessageText = 256
	// maxMessageResult bounds the remembered answer to an order; a longer one is left out.
	maxMessageResult = 4 << 10
)

// messageLog is the latest messages, from the time on at which somebody may look at them.
type messageLog struct {
	watched  atomic.Bool
	mutex    sync.Mutex
	messages []Message // a ring; that of number n is at (n-1) % maxMessages
	last     uint64
}

// add numbers a message and returns the number.
func (l *messageLog) add(m Message) uint64 {
	if !l.watched.Load() {
		return 0
	}
	for _, text := range []*string{&m.Client, &m.Node, &m.Name, &m.Description, &m.Text, &m.Error} {
		*text = shorten(*text)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.last++
	m.Number = l.last
	if m.At.IsZero() {
		m.At = time.Now()
	}
	if len(l.messages) < maxMessages {
		l.messages = append(l.messages, m)
	} else {
		l.messages[(m.Number-1)%maxMessages] = m
	}
	return m.Number
}

// shorten cuts a text to maxMessageText, and copies what is left.
func shorten(text string) string {
	if len(text) <= maxMessageText {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessageText], "") + "…"
}

// finish adds the outcome of an order to its message, if that is still there.
func (l *messageLog) finish(number uint64, result any, err error) {
	encoded, _ := json.Marshal(result)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if number == 0 || l.last-number >= maxMessages {
		return
	}
	m := &l.messages[(number-1)%maxMessages]
	switch {
	case err != nil:
		m.Error = shorten(err.Error())
	case result != nil && len(encoded) <= maxMessageResult:
		m.Result = encoded
	}
}

// after returns the messages with a larger number, in their order.
func (l *messageLog) after(number uint64) []Message {
	l.watched.Store(true)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	list := make([]Message, 0, len(l.messages))
	for _, m := range l.messages {
		if m.Number > number {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b Message) int { return int(a.Number) - int(b.Number) })
	return list
}

// request remembers a request, and the fault that it has met, if any.
func (l *messageLog) request(q *Request, fault string) {
	if !l.watched.Load() {
		return
	}
	l.add(Message{At: q.At, From: FromClient, What: string(q.Kind), Server: q.Server, Stream: q.Stream,
		Client: q.Client, Node: q.Node, Session: q.Session, Name: q.Name, Description: q.Description, Fault: fault})
}

// answer remembers the answer to a call.
func (l *messageLog) answer(q *Request, response any, err error) {
	if !l.watched.Load() {
		return
	}
	m := Message{From: FromServer, What: "done", Server: q.Server, Client: q.Client, Node: q.Node, Name: q.Name}
	if err != nil {
		m.What, m.Status, m.Text = "failed", status.Code(err).String(), status.Convert(err).Message()
	} else if of, is := response.(interface {
		GetOperation() *Ydb_Operations.Operation
	}); is && of.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		m.What, m.Status = "failed", of.GetOperation().GetStatus().String()
	}
	l.add(m)
}

// order remembers an order that changes something.
func (l *messageLog) order(name string, values map[string]any) (done func(result any, err error)) {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		words = append(words, fmt.Sprint(key, "=", values[key]))
	}
	number := l.add(Message{From: FromOrder, What: name, Text: strings.Join(words, " ")})
	return func(result any, err error) { l.finish(number, result, err) }
}

// failed is the word for a Failure.
const failed = "failure"

// wordOf returns a word for a message of the server, empty for a ping or a pong, and its status.
func wordOf(m *Ydb_Coordination.SessionResponse) (string, Ydb.StatusIds_StatusCode) {
	switch r := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_SessionStarted_:
		return "started", 0
	case *Ydb_Coordination.SessionResponse_SessionStopped_:
		return "stopped", 0
	case *Ydb_Coordination.SessionResponse_Failure_:
		return failed, r.Failure.GetStatus()
	case *Ydb_Coordination.SessionResponse_AcquireSemaphorePending_:
		return "pending", 0
	case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
		if a := r.AcquireSemaphoreResult; a.GetAcquired() || a.GetStatus() != Ydb.StatusIds_SUCCESS {
			return "acquired", a.GetStatus()
		}
		return "not acquired", 0
	case *Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_:
		return "released", r.ReleaseSemaphoreResult.GetStatus()
	case *Ydb_Coordination.SessionResponse_CreateSemaphoreResult_:
		return "created", r.CreateSemaphoreResult.GetStatus()
	case *Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_:
		return "updated", r.UpdateSemaphoreResult.GetStatus()
	case *Ydb_Coordination.SessionResponse_DeleteSemaphoreResult_:
		return "deleted", r.DeleteSemaphoreResult.GetStatus()
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_:
		return "described", r.DescribeSemaphoreResult.GetStatus()
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_:
		return "changed", 0
	}
	return "", 0
}
