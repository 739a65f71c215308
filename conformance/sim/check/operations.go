package check

import (
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/coordd/coordd/conformance/model"
)

// Operation is a step on one semaphore that took effect at some moment between Call and Return, in nanoseconds. It is
// for conformance/porcupine, which does not know the log.
type Operation struct {
	Semaphore string `json:"semaphore"`
	Client    int    `json:"client"`
	Session   uint64 `json:"session"`
	// Kind is a request's, or one of: "owns", the session owns tokens; "leaves", its wait is over; "ends", it is ended.
	Kind     model.Kind         `json:"kind"`
	Count    uint64             `json:"count,omitzero"`
	Limit    uint64             `json:"limit,omitzero"`
	Data     string             `json:"data,omitzero"`
	Try      bool               `json:"try,omitzero"`   // an acquire that does not wait
	Force    bool               `json:"force,omitzero"` // a delete
	Call     int64              `json:"call"`
	Return   int64              `json:"return"`  // math.MaxInt64: it may not have taken effect at all
	Unknown  bool               `json:"unknown"` // the answer did not come
	Status   model.Status       `json:"status,omitzero"`
	Done     bool               `json:"done,omitzero"`
	Pending  bool               `json:"pending,omitzero"` // the acquire had to wait
	Describe *model.Description `json:"describe,omitempty"`
}

// The steps that are no requests.
const (
	Owns   model.Kind = "owns"
	Leaves model.Kind = "leaves"
	Ends   model.Kind = "ends"
)

// Operations returns the steps in a history on semaphores that are not ephemeral. Descriptions count only of nodes with
// strict reads.
func Operations(events []Event) []Operation {
	j := collect(events, Options{})
	j.replay()
	ephemeral := make(map[string]bool)
	for _, q := range j.order {
		ephemeral[q.stream.path+"/"+q.Name] = ephemeral[q.stream.path+"/"+q.Name] || q.Ephemeral
	}
	var list []Operation
	names := make(map[sessionKey][]string)
	for _, q := range j.order {
		s := q.stream
		if q.Kind == model.Stop || s.session == 0 || ephemeral[s.path+"/"+q.Name] {
			continue
		}
		n := j.nodeOf(s)
		if q.Kind == model.Describe && (n == nil || !n.strict || !q.IncludeOwners || !q.IncludeWaiters) {
			continue
		}
		key := sessionKey{s.path, s.session}
		if !slices.Contains(names[key], q.Name) {
			names[key] = append(names[key], q.Name)
		}
		list = append(list, q.operations()...)
	}
	for key, touched := range names {
		for _, name := range touched {
			list = append(list, j.ending(key, name))
		}
	}
	slices.SortStableFunc(list, func(a, b Operation) int { return int(a.Call - b.Call) })
	return list
}

// operations returns the steps of a request.
func (q *request) operations() []Operation {
	o := Operation{Semaphore: q.stream.path + "/" + q.Name, Client: q.stream.client, Session: q.stream.session,
		Kind: q.Kind, Count: q.Count, Limit: q.Limit, Data: q.Data, Try: q.TimeoutMillis == 0, Force: q.Force,
		Call: int64(q.at), Return: math.MaxInt64, Unknown: true}
	pending := int64(math.MaxInt64)
	for _, g := range q.got {
		switch g.Kind {
		case model.Pending:
			pending, o.Pending = int64(g.at), true
		case model.Result:
			o.Return, o.Unknown = int64(g.at), false
			o.Status, o.Done, o.Describe = g.Status, g.Done, g.Description
		}
	}
	if q.Kind != model.Acquire || o.Try {
		return []Operation{o}
	}
	queued, then := o, o
	queued.Return = min(pending, o.Return)
	queued.Unknown = queued.Return == math.MaxInt64
	then.Kind = Leaves
	switch {
	case !o.Unknown && o.Status != model.Success:
		return []Operation{queued} // refused, or ended by another request
	case !o.Unknown && o.Done:
		then.Kind = Owns
	case o.Unknown && q.TimeoutMillis == model.Infinite:
		return []Operation{queued}
	}
	return []Operation{queued, then}
}

// ending returns the end of a session, which may not have come.
func (j *judge) ending(key sessionKey, name string) Operation {
	o := Operation{Semaphore: key.path + "/" + name, Session: key.session, Kind: Ends, Return: math.MaxInt64,
		Unknown: true}
	for _, s := range j.sessions[key] {
		o.Client = s.client
		for _, p := range s.proofs {
			o.Call = max(o.Call, int64(p.sent))
		}
		if q := s.byID[0]; q != nil && len(q.got) > 0 { // a stop
			o.Call, o.Return, o.Unknown = int64(q.at), int64(q.got[0].at), false
			break
		}
	}
	return o
}

// WriteOperations writes steps as lines of JSON.
func WriteOperations(w io.Writer, list []Operation) error {
	encoder := json.NewEncoder(w)
	for i := range list {
		if err := encoder.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}
