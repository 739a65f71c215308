package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// clusterTarget runs scripts on a cluster, through one of its servers.
type clusterTarget struct {
	cluster   *cluster
	endpoints []*Endpoint // the server that scripts talk to, then the others
	// meeting is where the leader changes between the steps; nil: nowhere.
	meeting *meeting
	// restless: the leader changes at any time.
	restless bool
}

// dialCluster connects to all servers; scripts talk to the one with the number first.
func dialCluster(ctx context.Context, c *cluster, first int) (*clusterTarget, error) {
	target := &clusterTarget{cluster: c}
	for i := range c.servers {
		config := c.configs[(first+i)%len(c.servers)]
		e, err := Dial(ctx, EndpointConfig{Address: config.Listen, Database: config.Database,
			Restart: c.restart, Patience: patience})
		if err != nil {
			return nil, errors.Join(err, target.Close(ctx))
		}
		target.endpoints = append(target.endpoints, e)
	}
	return target, nil
}

// Close removes what the target has made, and its connections.
func (c *clusterTarget) Close(ctx context.Context) error {
	var all error
	for _, e := range c.endpoints {
		all = errors.Join(all, e.Close(ctx))
	}
	return all
}

// reign distinguishes successive leaders, and successive relays to one leader: a new relay ends the watches that were
// set through the old one, as a new leader does.
type reign struct{ term, relays uint64 }

func (c *clusterTarget) reign() (r reign) {
	for _, s := range c.cluster.servers {
		f := s.Figures()
		r.term, r.relays = max(r.term, f.Log.Term), r.relays+f.Group.RelaysOpened
	}
	return r
}

func (c *clusterTarget) changesLeader() bool { return c.meeting != nil || c.restless }

// Offers implements Target.
func (c *clusterTarget) Offers(need Need) bool {
	switch need {
	case NeedWire, NeedServers, NeedOpen:
		return true
	case NeedSameLeader, NeedRestart:
		return !c.changesLeader()
	}
	return false
}

// Open implements Target.
func (c *clusterTarget) Open(ctx context.Context, name string, limits coordination.Limits) (Environment, error) {
	if c.meeting != nil {
		c.meeting.enter()
	}
	env, err := c.endpoints[0].Open(ctx, name, limits)
	if err != nil {
		if c.meeting != nil {
			c.meeting.leave(ctx)
		}
		return nil, err
	}
	return &clusterEnvironment{endpointEnvironment: env.(*endpointEnvironment), target: c,
		servers: make(map[string]int), streams: make(map[Stream]*clusterStream)}, nil
}

type clusterEnvironment struct {
	*endpointEnvironment
	target  *clusterTarget
	servers map[string]int
	streams map[Stream]*clusterStream // by the stream below
}

// Check implements Environment: here all scripts meet, and the leader changes.
func (e *clusterEnvironment) Check(ctx context.Context) (disturbed bool, err error) {
	if e.target.meeting == nil {
		return false, nil
	}
	return true, e.target.meeting.attend(ctx)
}

// Close implements Environment.
func (e *clusterEnvironment) Close(ctx context.Context) error {
	if e.target.meeting != nil {
		defer e.target.meeting.leave(ctx)
	}
	return e.endpointEnvironment.Close(ctx)
}

// Connect implements Environment. Servers get their numbers in the order in which a script names them.
func (e *clusterEnvironment) Connect(_ context.Context, options StreamOptions) (Stream, error) {
	at, known := e.servers[options.Server]
	if !known {
		at = len(e.servers) % len(e.target.endpoints)
		e.servers[options.Server] = at
	}
	below, err := e.connectOver(e.target.endpoints[at].connection, options.User)
	if err != nil {
		return nil, err
	}
	s := &clusterStream{Stream: below, names: make(map[uint64]string), again: make(map[uint64][]byte),
		repeated: make(map[uint64]int)}
	e.streams[below] = s
	return s, nil
}

// Next implements Environment. What a leader change says about watches is dealt with here, as a client has
// to.
func (e *clusterEnvironment) Next(ctx context.Context) (Event, bool) {
	for {
		event, ok := e.endpointEnvironment.Next(ctx)
		if !ok {
			return event, false
		}
		s := e.streams[event.Stream]
		event.Stream = s
		if !e.target.changesLeader() || !s.deals(event.Message) {
			return event, true
		}
	}
}

// clusterStream repeats describes whose watch was lost with a leader.
type clusterStream struct {
	Stream
	watching []uint64          // describes that ask for a watch, in the order of sending
	names    map[uint64]string // of their semaphores
	again    map[uint64][]byte // the describes themselves
	repeated map[uint64]int    // describes repeated for the script and not answered yet
}

// Send implements Stream.
func (s *clusterStream) Send(message []byte) error {
	request := &Ydb_Coordination.SessionRequest{}
	if err := proto.Unmarshal(message, request); err == nil {
		if d := request.GetDescribeSemaphore(); d.GetWatchData() || d.GetWatchOwners() {
			s.watching = append(s.watching, d.GetReqId())
			s.names[d.GetReqId()], s.again[d.GetReqId()] = d.GetName(), message
		}
	}
	return s.Stream.Send(message)
}

// deals handles a message that the script is not to see, and reports whether it is one: the notice that
// nothing is known of a watch, and the answer to its repetition. Another watch of the same stream on the same
// semaphore gives the same notice, which is the script's then.
func (s *clusterStream) deals(m *sessionReply) bool {
	if r := m.GetDescribeSemaphoreResult(); r != nil && s.repeated[r.GetReqId()] > 0 {
		s.repeated[r.GetReqId()]--
		return true
	}
	changed := m.GetDescribeSemaphoreChanged()
	if changed == nil {
		return false
	}
	id := changed.GetReqId()
	at := slices.Index(s.watching, id)
	if at < 0 {
		return false
	}
	replaced := slices.ContainsFunc(s.watching[at+1:],
		func(later uint64) bool { return s.names[later] == s.names[id] })
	s.watching = slices.Delete(s.watching, at, at+1)
	if changed.GetDataChanged() || changed.GetOwnersChanged() || replaced {
		return false
	}
	s.watching = append(s.watching, id)
	s.repeated[id]++
	_ = s.Stream.Send(s.again[id]) // where it fails, the end of the stream follows
	return true
}

// meeting lets scripts that run side by side wait for each other between their steps, and does something when
// all are there.
type meeting struct {
	do func(ctx context.Context) error

	mutex   sync.Mutex
	members int
	present int
	over    chan struct{} // closed when the present meeting ends
	err     error         // of the last meeting
}

func newMeeting(do func(ctx context.Context) error) *meeting {
	return &meeting{do: do, over: make(chan struct{})}
}

func (m *meeting) enter() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.members++
}

func (m *meeting) leave(ctx context.Context) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.members--
	if m.members > 0 && m.present == m.members {
		m.hold(ctx)
	}
}

// attend returns when the meeting is over.
func (m *meeting) attend(ctx context.Context) error {
	m.mutex.Lock()
	m.present++
	over := m.over
	if m.present == m.members {
		m.hold(ctx)
	}
	m.mutex.Unlock()
	<-over
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.err
}

// hold does what there is to do and lets all go. The mutex is held.
func (m *meeting) hold(ctx context.Context) {
	m.err = m.do(ctx)
	m.present = 0
	close(m.over)
	m.over = make(chan struct{})
}

// heirs chooses who leads next: mostly one of the two that the scripts do not talk to, sometimes the one that
// they do.
type heirs struct {
	random *rand.Rand
	first  int // the server that the scripts talk to
	size   int
}

func (h *heirs) next(leader int) int {
	for {
		to := h.random.IntN(h.size)
		if to != leader && (to != h.first || h.random.IntN(3) == 0) {
			return to
		}
	}
}
