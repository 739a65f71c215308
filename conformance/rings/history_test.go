package rings

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
)

var (
	histories    = flag.Int("histories", 500, "how many histories each random test of leader changes runs")
	historySeed  = flag.Uint64("history", 0, "the only history to run, with its trace; 0 for many")
	historySteps = flag.Int("history-steps", 800, "steps of a history")
)

// forHistories calls run with each wanted seed.
func forHistories(t *testing.T, run func(seed uint64) error) {
	first, last := uint64(1), uint64(*histories)
	if *historySeed != 0 {
		first, last = *historySeed, *historySeed
	}
	failed := 0
	for seed := first; seed <= last && failed < 20; seed++ {
		if err := run(seed); err != nil {
			t.Errorf("-history=%d: %v", seed, err)
			failed++
		}
	}
}

// TestHistories runs random histories of three servers and their clients. Messages between the servers take
// time, relays break, and leaders change while anything is on its way: of the commands in flight a part
// survives. Barriers take time, permits to speak end, commands wait for company, followers lag and take over
// checkpoints, sessions are stolen, stopped, left and ended by administrators, and a node's modes change. Each
// client pipelines requests and judges its answers (historyClient); no session expires.
func TestHistories(t *testing.T) {
	total := make(map[string]int)
	forHistories(t, func(seed uint64) error {
		h, err := runHistory(seed)
		for what, times := range h.counts {
			total[what] += times
		}
		for _, line := range h.trace {
			t.Log(line)
		}
		return err
	})
	t.Log(total)
}

// history is one of them: the servers, their clients, and the messages between them.
type history struct {
	random   *rand.Rand
	now      coordination.Instant
	servers  []*historyServer
	leader   *historyServer
	term     coordination.Term
	log      []loggedEntry
	pending  []coordination.Command // proposed, and not in the log yet
	barriers []uint64               // asked for
	lost     []*historyRelay        // whose loss the leader has not noticed yet
	clients  []*historyClient
	ended    map[coordination.SessionID]bool // by administrators, perhaps only in a while
	drawn    uint64                          // stream ids, nonces, numbers of pings
	policy   coordination.PingPolicy

	calm                     int  // relays and leaders last this much longer
	thefts, restores, alters bool // happen besides
	restored                 bool // not every machine's memory is complete
	changes                  int  // of leaders and relays
	counts                   map[string]int
	trace                    []string // if only this history runs
}

type loggedEntry struct {
	term coordination.Term
	data []byte
}

type historyServer struct {
	number  int
	replica *coordination.Replica[*relayedStream, int]
	applied int
	relay   *historyRelay // to the leader, nil while it is broken
	permit  bool
	streams []*historyStream
}

// historyRelay carries the messages between a server and the leader in either direction, in order.
type historyRelay struct {
	server *historyServer
	reign  coordination.Reign
	up     []relayedUp
	down   []relayedDown
	ids    map[*historyStream]coordination.StreamID
	broken bool
}

type relayedUp struct {
	stream  *historyStream
	forward coordination.Forward
}

type relayedDown struct {
	stream  *historyStream
	message coordination.Message
}

// relayedStream is a stream as the leader knows it.
type relayedStream struct {
	relay  *historyRelay
	stream *historyStream
}

// historyFailure is a panic that ends a history.
type historyFailure struct{ error }

func (h *history) fail(format string, args ...any) {
	panic(historyFailure{fmt.Errorf(format, args...)})
}

func (h *history) note(format string, args ...any) {
	if *historySeed != 0 {
		h.trace = append(h.trace, fmt.Sprintf(format, args...))
	}
}

// one is true once in n times.
func (h *history) one(n int) bool { return h.random.IntN(n) == 0 }

func (h *history) draw() uint64 {
	h.drawn++
	return h.drawn
}

func runHistory(seed uint64) (h *history, err error) {
	h = &history{random: rand.New(rand.NewPCG(seed, 3)), now: coordination.Instant(time.Second),
		ended: make(map[coordination.SessionID]bool), counts: make(map[string]int)}
	h.policy.Opaque = h.draw
	h.calm, h.thefts, h.restores, h.alters = 1+h.random.IntN(6), !h.one(4), h.one(4), h.one(4)
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case historyFailure:
			err = failure.error
		default:
			panic(failure)
		}
	}()
	h.begin(seed&1 != 0, seed&2 != 0)
	for range *historySteps {
		h.step()
	}
	h.settle()
	for _, c := range h.clients {
		c.releaseAll()
	}
	h.settle()
	for _, c := range h.clients {
		c.verify()
	}
	h.compareServers()
	return h, nil
}

func (h *history) begin(relaxedAttaches, strictReads bool) {
	for number := range 3 {
		m, err := coordination.NewMachine("/local", coordination.DefaultLimits())
		if err != nil {
			h.fail("%w", err)
		}
		h.servers = append(h.servers, &historyServer{number: number,
			replica: coordination.NewReplica[*relayedStream, int](m, coordination.Formats{})})
	}
	h.elect(h.servers[0])
	config := coordination.NodeConfig{SessionGracePeriodMillis: 30_000}
	if strictReads {
		config.ReadConsistencyMode = coordination.ConsistencyStrict
	}
	if relaxedAttaches {
		config.AttachConsistencyMode = coordination.ConsistencyRelaxed
	}
	h.call(&coordination.CreateNode{CallID: h.callID(), Path: []string{"local", "n"}, Config: config})
	h.commit(len(h.pending))
	for _, s := range h.servers {
		h.join(s)
		s.permit = true
	}
}

func (h *history) callID() coordination.CallID { return coordination.CallID{Nonce: h.draw()} }

func (h *history) call(c coordination.Command) {
	h.leader.replica.Call(h.now, 0, c, coordination.Index(len(h.log)), false)
	h.turn(0)
}

// turn takes the leader's output; one time in companyIn it leaves commands that may wait.
func (h *history) turn(companyIn int) {
	work := h.leader.replica.TakeAllButCommands
	if companyIn == 0 || !h.leader.replica.MayWait() || !h.one(companyIn) {
		work = h.leader.replica.Take
	}
	out := work()
	h.pending = append(h.pending, out.Commands...)
	if out.Barrier != 0 {
		h.barriers = append(h.barriers, out.Barrier)
	}
	for i := range out.Messages {
		to, known := h.leader.replica.Sink(&out.Messages[i])
		if known && !to.relay.broken {
			to.relay.down = append(to.relay.down, relayedDown{to.stream, out.Messages[i]})
		}
	}
}

// enter makes an entry of the first commands in flight, n at most, and returns how many it has.
func (h *history) enter(n int) int {
	if at := slices.IndexFunc(h.pending[:n], coordination.Alone); at >= 0 {
		n = max(at, 1)
	}
	data := codec.BeginEntry(nil, h.leader.replica.Stamp(uint64(h.now/1e6)))
	for _, c := range h.pending[:n] {
		h.note("entry %d, %T %+v", len(h.log)+1, c, c)
		data = codec.AppendToEntry(data, c)
	}
	data = codec.EndEntry(data, h.leader.replica.Served(h.now, true), true)
	h.log = append(h.log, loggedEntry{h.term, data})
	h.pending = h.pending[n:]
	return n
}

func (h *history) commit(n int) {
	if n = min(n, len(h.pending)); n > 0 {
		h.enter(n)
		h.catchUp(h.leader)
		h.turn(2)
	}
}

// apply applies the next entry on a server.
func (h *history) apply(s *historyServer) {
	logged := h.log[s.applied]
	s.applied++
	e := &coordination.Entry{Index: coordination.Index(s.applied), Term: logged.term}
	if err := codec.DecodeEntry(slices.Clone(logged.data), e); err != nil {
		h.fail("entry %d: %w", s.applied, err)
	}
	s.replica.Committed(h.now, e)
}

func (h *history) catchUp(s *historyServer) {
	for s.applied < len(h.log) {
		h.apply(s)
	}
}

// elect makes a server the leader. Some of the first commands in flight are in its log; the others are lost,
// and so is everything on its way between servers.
func (h *history) elect(s *historyServer) {
	if h.leader != nil {
		for kept := h.random.IntN(len(h.pending) + 1); kept > 0; {
			kept -= h.enter(1 + h.random.IntN(kept))
		}
		h.leader.replica.Following()
		h.leader.replica.Take()
	}
	h.note("server %d leads, %d commands are lost", s.number, len(h.pending))
	h.changes++
	h.counts["leaders"]++
	h.pending, h.barriers, h.lost = nil, nil, nil
	for _, s := range h.servers {
		h.cut(s)
	}
	h.lost = nil
	h.leader = s
	h.term++
	h.catchUp(s)
	s.replica.Leading(h.term, 0)
	h.log = append(h.log, loggedEntry{term: h.term})
	h.catchUp(s)
	h.turn(0)
}

// cut breaks the relay of a server.
func (h *history) cut(s *historyServer) {
	if s.relay != nil {
		h.note("the relay of server %d breaks", s.number)
		h.changes++
		h.counts["lost relays"]++
		s.relay.broken = true
		h.lost = append(h.lost, s.relay)
	}
	s.relay, s.permit = nil, false
	for _, stream := range s.streams {
		stream.front.Orphan(h.now)
	}
}

// noticeLoss lets the leader notice the loss of the first relay that broke.
func (h *history) noticeLoss() {
	if len(h.lost) == 0 {
		return
	}
	r := h.lost[0]
	h.lost = h.lost[1:]
	for _, stream := range r.server.streams {
		if id, known := r.ids[stream]; known {
			h.leader.replica.Forward(h.now, r.reign, id, &relayedStream{r, stream},
				coordination.Forward{Lost: true})
		}
	}
	h.turn(2)
}

// join opens a relay and sends the streams' rosters, and then the starts that are not answered yet.
func (h *history) join(s *historyServer) {
	if s.relay != nil {
		return
	}
	s.relay = &historyRelay{server: s, reign: h.leader.replica.Reign(),
		ids: make(map[*historyStream]coordination.StreamID)}
	streams := slices.Clone(s.streams)
	h.random.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	for _, attached := range []bool{true, false} {
		for _, stream := range streams {
			if stream.front.Attached() == attached {
				stream.forward(stream.front.Rejoin())
			}
		}
	}
}

// carryUp hands the leader the next message of a server.
func (h *history) carryUp(s *historyServer) bool {
	r := s.relay
	if r == nil || len(r.up) == 0 {
		return false
	}
	next := r.up[0]
	r.up = r.up[1:]
	id, known := r.ids[next.stream]
	switch {
	case !known && next.forward.Attach == nil && next.forward.Roster == nil:
		return true
	case !known:
		id = coordination.StreamID(h.draw())
		r.ids[next.stream] = id
	case next.forward.Detach:
		delete(r.ids, next.stream)
	}
	h.note("the leader gets %+v of client %d", next.forward, next.stream.client.number)
	h.leader.replica.Forward(h.now, r.reign, id, &relayedStream{r, next.stream}, next.forward)
	if !h.one(3) {
		h.turn(2)
	}
	return true
}

// carryDown hands a server the next message of the leader.
func (h *history) carryDown(s *historyServer) bool {
	r := s.relay
	if r == nil || len(r.down) == 0 {
		return false
	}
	next := r.down[0]
	r.down = r.down[1:]
	if next.message.Last() {
		delete(r.ids, next.stream)
	}
	next.stream.front.Deliver(h.now, &next.message)
	next.stream.read()
	return true
}

func (h *history) passBarrier() bool {
	if len(h.barriers) == 0 {
		return false
	}
	h.leader.replica.BarrierPassed(h.barriers[0])
	h.barriers = h.barriers[1:]
	h.turn(2)
	if err := h.leader.replica.Check(); err != nil {
		h.fail("the leader: %w", err)
	}
	return true
}

func (h *history) tick(d time.Duration) {
	h.now += coordination.Instant(d)
	for _, s := range h.servers {
		for _, stream := range s.streams {
			stream.mute()
			if stream.front.Wake() > h.now {
				continue
			}
			stream.forward(stream.front.Tick(h.now))
			if stream.front.Wake() <= h.now {
				h.fail("client %d: the Front is due again at once", stream.client.number)
			}
			stream.read()
		}
	}
	h.leader.replica.Tick(h.now)
	h.turn(2)
}

// step makes one thing happen.
func (h *history) step() {
	s := h.servers[h.random.IntN(len(h.servers))]
	switch x := h.random.IntN(100); {
	case x < 36:
		h.act(s)
	case x < 52:
		for n := h.random.IntN(4); n >= 0 && h.carryUp(s); n-- {
		}
	case x < 68:
		for n := h.random.IntN(6); n >= 0 && h.carryDown(s); n-- {
		}
	case x < 78:
		h.commit(1 + h.random.IntN(3))
	case x < 83:
		h.passBarrier()
	case x < 86:
		if s.applied < len(h.log) {
			h.apply(s)
		}
	case x < 92:
		h.join(s)
		s.permit = !h.one(6)
		for _, stream := range s.streams {
			stream.read()
		}
	case x < 94 && h.one(h.calm):
		h.cut(s)
	case x < 95:
		h.noticeLoss()
	case x < 97 && h.one(h.calm):
		h.elect(s)
	case x < 98 && h.restores && s != h.leader && h.one(h.calm):
		h.restore(s)
	case x < 99 && h.alters && h.one(4):
		h.alter()
	default:
		h.tick(time.Duration(h.random.IntN(200)) * time.Millisecond)
	}
}

// restore replaces a follower's machine by the checkpoint of another.
func (h *history) restore(s *historyServer) {
	from := h.leader.replica.Machine()
	restorer, err := coordination.NewRestorer("/local", coordination.DefaultLimits())
	for _, row := range from.AllRows() {
		if err == nil {
			err = restorer.Add(row)
		}
	}
	if err != nil {
		h.fail("%w", err)
	}
	m, err := restorer.Finish()
	if err != nil {
		h.fail("%w", err)
	}
	h.counts["checkpoints"]++
	h.note("server %d takes over a checkpoint", s.number)
	s.replica.Restored(m)
	s.applied, h.restored = h.leader.applied, true
}

// alter changes the modes of the node, or ends a session.
func (h *history) alter() {
	if alive := h.alive(); h.one(2) {
		if len(alive) == 0 || alive[0].session == 0 {
			return
		}
		session := alive[0].session
		h.ended[session] = true
		for _, c := range alive {
			c.doomed = c.doomed || c.session == session || c.wants == session
		}
		h.counts["sessions ended"]++
		h.call(&coordination.EndSession{CallID: h.callID(), Node: 1, Session: session})
		return
	}
	h.counts["modes altered"]++
	h.call(&coordination.AlterNode{CallID: h.callID(), Path: []string{"local", "n"},
		Config: coordination.NodeConfig{ReadConsistencyMode: int32(1 + h.random.IntN(2)),
			AttachConsistencyMode: int32(1 + h.random.IntN(2))}})
}

// settle lets everything come to its end.
func (h *history) settle() {
	for round, moved := 0, true; moved || round < 10; round++ {
		if round == 1000 {
			h.fail("it does not end")
		}
		moved = false
		for _, s := range h.servers {
			h.join(s)
			s.permit = true
			for h.carryUp(s) {
				moved = true
			}
			h.turn(0)
			for h.carryDown(s) {
				moved = true
			}
			for _, stream := range s.streams {
				stream.read()
			}
		}
		for len(h.lost) > 0 {
			h.noticeLoss()
		}
		for len(h.pending) > 0 {
			h.commit(3)
			moved = true
		}
		for h.passBarrier() {
			moved = true
		}
		h.tick(3 * time.Millisecond)
	}
}

// compareServers wants all machines to be sound, and equal.
func (h *history) compareServers() {
	for _, s := range h.servers {
		h.catchUp(s)
		m := s.replica.Machine()
		if err := s.replica.Check(); err != nil {
			h.fail("server %d: %w", s.number, err)
		}
		if m.Digest() != h.servers[0].replica.Machine().Digest() {
			h.fail("servers 0 and %d differ", s.number)
		}
	}
}
