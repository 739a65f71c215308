package check

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/conformance/rings"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/wire"
)

var written = flag.String("operations", "", "a folder for the operations of these histories, for conformance/porcupine")

var scenes = flag.Uint64("scenes", 300, "histories that TestGoodHistoriesPass plays")

const scenePath = "/local/node"

// scene is a world of the pure rings with clients that write a history.
type scene struct {
	*rand.Rand
	world   *rings.World
	history History
	clients []*actor
	unique  int
}

// actor is a client with one session and the streams that it has opened.
type actor struct {
	number  int
	session uint64
	seqNo   uint64
	timeout time.Duration
	streams []*actorStream
	lastID  uint64
}

type actorStream struct {
	actor   *actor
	number  int
	rings   *rings.Stream
	started bool
	ended   bool
}

func newScene(t *testing.T, seed uint64, config coordination.NodeConfig) *scene {
	t.Helper()
	s := &scene{Rand: rand.New(rand.NewPCG(seed, 1))}
	world, err := rings.New(rings.Options{Check: true, Batch: func(n int) int { return 1 + s.IntN(n) },
		Reencode: func(e coordination.Entry) coordination.Entry {
			s.history.Execute(s.now(), 1, &e)
			return e
		}})
	if err != nil {
		t.Fatal(err)
	}
	s.world = world
	outcome := world.Call(func(id coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: id, Path: scheme.SplitLoose(scenePath), Config: config}
	})
	if !outcome.OK() {
		t.Fatalf("the node was not made: %+v", outcome)
	}
	for i := range 3 {
		s.clients = append(s.clients, &actor{number: i, timeout: time.Duration(1+i) * 2 * time.Second})
	}
	return s
}

func (s *scene) now() time.Duration {
	if s.world == nil {
		return 0
	}
	return s.world.Now()
}

func (s *scene) open(c *actor, server uint64) *actorStream {
	c.seqNo++
	a := &actorStream{actor: c, rings: s.world.Open(server)}
	a.number = s.history.Open(s.now(), c.number, int(server), scenePath)
	c.streams = append(c.streams, a)
	s.send(a, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: scenePath, SessionId: c.session,
			SeqNo: c.seqNo, TimeoutMillis: uint64(c.timeout.Milliseconds())}}})
	return a
}

func (s *scene) send(a *actorStream, m *Ydb_Coordination.SessionRequest) {
	s.history.Add(s.now(), &Sent{Client: a.actor.number, Stream: a.number, Request: m})
	a.rings.Send(wire.FromClient(m))
}

// ask sends a request with the next id.
func (s *scene) ask(a *actorStream, r model.Request) {
	a.actor.lastID++
	r.ReqID = a.actor.lastID
	s.send(a, r.Proto())
}

// read takes what has come for a stream.
func (s *scene) read(a *actorStream) {
	for _, r := range a.rings.Replies() {
		if r.Kind == coordination.ReplyNone {
			continue
		}
		m := wire.ToClient(&r)
		s.history.Add(s.now(), &Got{Client: a.actor.number, Stream: a.number, Message: m})
		switch {
		case m.GetSessionStarted() != nil:
			a.actor.session, a.started = m.GetSessionStarted().GetSessionId(), true
		case m.GetPing() != nil:
			s.send(a, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
				Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
		case m.GetFailure() != nil || m.GetSessionStopped() != nil:
			s.over(a, false)
			if m.GetSessionStopped() != nil || model.ReplyOf(m).Status == model.SessionExpired {
				a.actor.session = 0
			}
		}
	}
}

func (s *scene) over(a *actorStream, abandoned bool) {
	a.ended = true
	a.actor.streams = slices.DeleteFunc(a.actor.streams, func(other *actorStream) bool { return other == a })
	s.history.Add(s.now(), &Ended{Client: a.actor.number, Stream: a.number, Abandoned: abandoned})
}

func (s *scene) readAll() {
	for _, c := range s.clients {
		for _, a := range slices.Clone(c.streams) {
			s.read(a)
		}
	}
}

// request draws one.
func (s *scene) request(c *actor) model.Request {
	s.unique++
	data := fmt.Sprint("data", s.unique)
	r := model.Request{Kind: []model.Kind{model.Acquire, model.Acquire, model.Release, model.Update, model.Describe,
		model.Describe, model.Create, model.Delete}[s.IntN(8)], Name: []string{"a", "b", "c"}[s.IntN(3)]}
	switch r.Kind {
	case model.Create:
		r.Limit, r.Data = uint64(len(r.Name))+s.Uint64N(2), data
	case model.Update:
		r.Data = data
	case model.Acquire:
		r.Count, r.Data, r.TimeoutMillis = 1+s.Uint64N(2), data, []uint64{0, 300, model.Infinite}[s.IntN(3)]
		if s.IntN(6) == 0 {
			r.Name, r.Ephemeral, r.Count = "e", true, model.Infinite
		}
	case model.Delete:
		r.Force = s.IntN(8) == 0
	case model.Describe:
		r.IncludeOwners, r.IncludeWaiters = s.IntN(2) == 0, s.IntN(2) == 0
		r.WatchData, r.WatchOwners = s.IntN(3) == 0, s.IntN(3) == 0
	}
	return r
}

// step does one random thing.
func (s *scene) step() {
	c := s.clients[s.IntN(len(s.clients))]
	if len(c.streams) == 0 || s.IntN(60) == 0 && !s.world.Held() {
		s.open(c, s.Uint64N(3))
		s.settle()
		return
	}
	a := c.streams[len(c.streams)-1]
	switch at := s.IntN(40); {
	case at < 20 && a.started:
		s.ask(a, s.request(c))
	case at < 24 && a.started:
		s.send(a, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{
			Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: uint64(s.now()) + 1}}})
	case at < 25 && !s.world.Held():
		a.rings.Close()
		s.over(a, true)
	case at < 26 && a.started && s.IntN(4) == 0:
		s.send(a, model.Request{Kind: model.Stop}.Proto())
	case at < 28:
		s.world.Hold()
	case at < 30:
		s.settle()
	case at < 31:
		s.world.FailOver(s.IntN(4))
		s.settle()
	case at < 36:
		s.readAll()
	default:
		s.readAll()
		s.world.Advance(time.Duration(s.IntN(400)) * time.Millisecond)
	}
}

func (s *scene) settle() {
	s.world.Release()
	s.readAll()
}

// run plays a whole history, and lets everything come to rest.
func (s *scene) run(steps int) {
	for range steps {
		s.step()
	}
	s.settle()
	for range 30 {
		s.world.Advance(200 * time.Millisecond)
		s.readAll()
	}
}

func (s *scene) judge() ([]Violation, Extent) {
	return Judge(s.history.Events(), Options{Patience: 2 * time.Second, Drift: 0.05})
}

func TestGoodHistoriesPass(t *testing.T) {
	answers, waits := 0, 0
	var total Extent
	for seed := range *scenes {
		config := coordination.NodeConfig{SessionGracePeriodMillis: 2000}
		if seed%2 == 0 {
			config.ReadConsistencyMode = coordination.ConsistencyStrict
		}
		if seed%3 == 0 {
			config.AttachConsistencyMode = coordination.ConsistencyRelaxed
		}
		s := newScene(t, seed, config)
		s.run(400)
		found, extent := s.judge()
		if total.Requests += extent.Requests; extent.Compared == 0 {
			t.Errorf("seed %d: nothing was compared", seed)
		}
		total.Doubtful += extent.Doubtful
		for _, v := range found {
			t.Errorf("seed %d: %v", seed, v)
		}
		for _, e := range s.history.Events() {
			if g, is := e.Fact.(*Got); is && g.Message.GetPing() == nil {
				answers++
				if g.Message.GetAcquireSemaphorePending() != nil {
					waits++
				}
			}
		}
		if *written != "" {
			f, err := os.Create(filepath.Join(*written, fmt.Sprint(seed)))
			if err = errors.Join(err, WriteOperations(f, Operations(s.history.Events())), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d answers, %d of them Pending; %d of %d requests are doubtful", answers, waits, total.Doubtful,
		total.Requests)
	if 50*total.Doubtful > total.Requests {
		t.Error("too many requests are doubtful")
	}
}
