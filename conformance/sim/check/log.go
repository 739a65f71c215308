package check

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/coordination"
)

// execute takes an entry that a server executes. All servers have the same one at an index.
func (j *judge) execute(place int, at time.Duration, e *Executed) {
	if e.Entry == nil {
		return
	}
	if first := j.first[e.Index]; first != nil {
		j.report(at, "log", "entry %d is %s on server %d, and %s elsewhere", e.Index, text(e.Entry), e.Server,
			text(first))
		return
	}
	j.first[e.Index] = e.Entry
	j.log = append(j.log, logged{e.Entry, place, at})
}

// text shows an entry.
func text(e *coordination.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "term %d", e.Term)
	for _, c := range e.Commands {
		fmt.Fprintf(&b, " %T%+v", c, reflect.ValueOf(c).Elem())
	}
	return b.String()
}

// replay lets the model execute the log.
func (j *judge) replay() {
	paths := make(map[string]coordination.NodeID)
	next := coordination.NodeID(1)
	for i := range j.log {
		l := &j.log[i]
		for place, c := range l.entry.Commands {
			position := coordination.Position{Index: l.entry.Index, Place: coordination.Place(place)}
			switch c := c.(type) {
			case *coordination.CreateNode:
				path := "/" + strings.Join(c.Path, "/")
				if _, exists := paths[path]; exists {
					break
				}
				if paths[path] = next; path != j.options.Foreign {
					j.nodes[next] = newNode(path)
					j.nodes[next].strict = c.Config.ReadConsistencyMode == coordination.ConsistencyStrict
				}
				next++
			case *coordination.AlterNode:
				if n := j.nodes[paths["/"+strings.Join(c.Path, "/")]]; n != nil {
					n.strict = false // from when on it is, is not worth knowing
				}
			case *coordination.DropNode:
				path := "/" + strings.Join(c.Path, "/")
				delete(j.nodes, paths[path])
				delete(paths, path)
			default:
				j.command(l, position, c)
			}
		}
	}
}

// command executes a command of a session.
func (j *judge) command(l *logged, at coordination.Position, c coordination.Command) {
	switch c := c.(type) {
	case *coordination.Attach:
		if n := j.nodes[c.Node]; n != nil {
			n.attachSession(l.place, c)
		}
	case *coordination.StopSession:
		j.request(l, at, &c.Origin, model.Request{Kind: model.Stop})
	case *coordination.CreateSemaphore:
		j.request(l, at, &c.Origin, model.Request{Kind: model.Create, Name: c.Name, Limit: c.Limit,
			Data: string(c.Data)})
	case *coordination.UpdateSemaphore:
		j.request(l, at, &c.Origin, model.Request{Kind: model.Update, Name: c.Name, Data: string(c.Data)})
	case *coordination.DeleteSemaphore:
		j.request(l, at, &c.Origin, model.Request{Kind: model.Delete, Name: c.Name, Force: c.Force})
	case *coordination.AcquireSemaphore:
		j.request(l, at, &c.Origin, model.Request{Kind: model.Acquire, Name: c.Name, Count: c.Count,
			TimeoutMillis: c.TimeoutMillis, Data: string(c.Data), Ephemeral: c.Ephemeral})
	case *coordination.ReleaseSemaphore:
		j.request(l, at, &c.Origin, model.Request{Kind: model.Release, Name: c.Name})
	case *coordination.ExpireSession:
		n := j.nodes[c.Node]
		if n != nil && c.Term == l.entry.Term && n.epochs[uint64(c.Session)] == c.AttachEpoch &&
			n.replay.Has(uint64(c.Session)) {
			j.expires(l, n, uint64(c.Session))
			n.end(pointOf(at), uint64(c.Session))
		}
	case *coordination.ExpireWaiter:
		if n := j.nodes[c.Node]; n != nil && c.Term == l.entry.Term {
			n.take(pointOf(at), n.replay.EndWait(uint64(c.Order), n.tickets[c.WaitEpoch]))
		}
	case *coordination.EndSession:
		if n := j.nodes[c.Node]; n != nil {
			n.end(pointOf(at), uint64(c.Session))
		}
	}
}

func (n *node) end(at point, session uint64) {
	if n.replay.Has(session) {
		n.gone[session] = at
		n.take(at, n.replay.End(session))
	}
}

// attachSession is an attach that is in the log: a new session, or another stream of one.
func (n *node) attachSession(place int, c *coordination.Attach) {
	wanted := uint64(c.Session)
	if wanted == 0 && n.replay.Has(n.nonces[c.Nonce]) {
		wanted = n.nonces[c.Nonce]
	}
	session := n.replay.Attach(wanted, c.TimeoutMillis, c.ProtectionKey)
	if session == 0 {
		return
	}
	if c.Nonce != 0 && c.Session == 0 {
		n.nonces[c.Nonce] = session
	}
	n.epochs[session] = c.Epoch
	n.attach[epochKey{session, c.Epoch}] = place
}

// request executes the command of a client's request.
func (j *judge) request(l *logged, at coordination.Position, o *coordination.Origin, wants model.Request) {
	n := j.nodes[o.Node]
	session := uint64(o.Session)
	if n == nil || !n.replay.Has(session) || o.Address.Epoch.Compare(n.epochs[session]) < 0 {
		return // the stream has lost its session
	}
	key := requestKey{epochKey{session, o.Address.Epoch}, o.Address.Sequence}
	if n.done[key] && wants.Kind != model.Stop {
		j.report(l.at, "log", "%s %q of session %d of %s is in the log twice, the second time as entry %d", wants.Kind,
			wants.Name, session, n.path, at.Index)
	}
	n.done[key] = true
	if wants.Kind == model.Stop && o.Address.Sequence == 0 {
		n.end(pointOf(at), session) // the client left before it knew its session
		return
	}
	q := j.sender(l, n, key, wants)
	ticket := uint64(len(n.tickets) + 1)
	n.senders[ticket], n.tickets[at] = q, ticket
	if q != nil {
		q.executed = pointOf(at)
	}
	if wants.Kind == model.Stop {
		if q != nil {
			q.answers = append(q.answers, answer{model.Reply{Kind: model.Stopped, Session: session}, pointOf(at)})
		}
		n.end(pointOf(at), session)
		return
	}
	wants.ReqID = ticket
	n.take(pointOf(at), n.replay.Do(session, wants))
}

// take keeps the answers of a step, and the semaphores that have changed.
func (n *node) take(at point, o model.Outcome) {
	for _, reply := range o.Replies {
		q := n.senders[reply.ReqID]
		if q == nil {
			continue
		}
		reply.ReqID = q.ReqID
		q.answers = append(q.answers, answer{reply, at})
	}
	for _, name := range o.Names {
		state, list := n.replay.Describe(name), n.history[name]
		switch last := len(list) - 1; {
		case last < 0 && state != nil, last >= 0 && !reflect.DeepEqual(list[last].state, state):
			n.history[name] = append(list, version{at, state})
		}
	}
	for _, c := range o.Changes {
		n.changes[c.Name] = append(n.changes[c.Name], change{c, at})
	}
}

// sender finds the request that a command is of, nil if that is not certain. Only the epoch names the stream in the
// log, so the first command of an epoch has to be that of a stream which asked for this with this number.
func (j *judge) sender(l *logged, n *node, key requestKey, wants model.Request) *request {
	s, known := n.streams[key.epochKey]
	if !known {
		s = j.streamOf(l, n, key, wants)
		n.streams[key.epochKey] = s
	}
	if s == nil || s.doubtful {
		return nil
	}
	if !s.sends(key.sequence, wants, l.place) {
		j.report(l.at, "log", "entry %d has %+v as request %d of stream %d, which did not ask for that", l.entry.Index,
			wants, key.sequence, s.number)
		return nil
	}
	return s.requests[key.sequence-1]
}

// sends reports whether the stream had sent this request at a place in the history.
func (s *stream) sends(sequence coordination.Sequence, wants model.Request, place int) bool {
	if sequence == 0 || int(sequence) > len(s.requests) {
		return false
	}
	q := s.requests[sequence-1]
	wants.ReqID = q.ReqID
	return q.place < place && q.Request == wants
}

// streamOf finds the stream of an epoch. Two that fit are both doubtful.
func (j *judge) streamOf(l *logged, n *node, key requestKey, wants model.Request) *stream {
	attached, logged := n.attach[key.epochKey]
	var fit []*stream
	for _, s := range j.sessions[sessionKey{n.path, key.session}] {
		if (!logged || s.opened < attached && attached < s.started) && s.sends(key.sequence, wants, l.place) &&
			!n.assigned(s) {
			fit = append(fit, s)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0]
	case len(fit) == 0:
		j.report(l.at, "log", "entry %d has %+v of session %d of %s, for which no client asked", l.entry.Index, wants,
			key.session, n.path)
	}
	for _, s := range fit {
		s.doubtful = true
	}
	return nil
}

func (n *node) assigned(s *stream) bool {
	for _, other := range n.streams {
		if other == s {
			return true
		}
	}
	return false
}
