package check

import (
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/coordination"
)

func ping(s *scene, c *actor) {
	s.send(c.streams[0], &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{
		Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: uint64(s.now()) + 1}}})
	s.readAll()
}

// story plays a history of two clients: the first has the semaphore and the second waits, with a watch; the first gives
// it back, the second changes it, and the first describes it. A third session waits for tokens that it never gets.
func story(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, 1, coordination.NodeConfig{ReadConsistencyMode: coordination.ConsistencyStrict})
	first, second := s.clients[0], s.clients[1]
	a, b := s.open(first, 1), s.open(second, 2)
	s.settle()
	step := func(stream *actorStream, r model.Request) {
		s.world.Advance(100 * time.Millisecond)
		s.ask(stream, r)
		s.settle()
	}
	step(a, model.Request{Kind: model.Create, Name: "a", Limit: 1})
	step(a, model.Request{Kind: model.Acquire, Name: "a", Count: 1})
	ping(s, first)
	step(b, model.Request{Kind: model.Acquire, Name: "a", Count: 1, TimeoutMillis: model.Infinite})
	step(b, model.Request{Kind: model.Describe, Name: "a", WatchData: true, WatchOwners: true, IncludeOwners: true})
	step(a, model.Request{Kind: model.Release, Name: "a"})
	ping(s, second)
	step(b, model.Request{Kind: model.Update, Name: "a", Data: "new"})
	step(a, model.Request{Kind: model.Describe, Name: "a"})
	step(a, model.Request{Kind: model.Acquire, Name: "a", Count: 1, TimeoutMillis: model.Infinite})
	ping(s, second)
	for range 8 {
		s.world.Advance(time.Second)
		ping(s, first)
		ping(s, second)
	}
	return s
}

// place finds the n-th event that fits, from 0.
func place(t *testing.T, events []Event, n int, fits func(Fact) bool) int {
	t.Helper()
	for i, e := range events {
		if fits(e.Fact) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	t.Fatal("the story has no such event")
	return 0
}

func result(kind model.Kind) func(Fact) bool {
	return func(f Fact) bool {
		g, is := f.(*Got)
		return is && model.ReplyOf(g.Message).To == kind
	}
}

func reply(kind model.ReplyKind) func(Fact) bool {
	return func(f Fact) bool {
		g, is := f.(*Got)
		return is && model.ReplyOf(g.Message).Kind == kind
	}
}

func command[C coordination.Command](f Fact) bool {
	e, is := f.(*Executed)
	if !is || e.Entry == nil || len(e.Entry.Commands) == 0 {
		return false
	}
	_, is = e.Entry.Commands[0].(C)
	return is
}

func entry(events []Event, at int) *coordination.Entry { return events[at].Fact.(*Executed).Entry }

func message(events []Event, at int) *Ydb_Coordination.SessionResponse {
	return events[at].Fact.(*Got).Message
}

// lies change a true history so that it breaks one promise, which Judge has to find.
var lies = map[string]struct {
	kind string
	tell func(*testing.T, []Event) []Event
}{
	"an acknowledged command is not in the log": {"model", func(t *testing.T, list []Event) []Event {
		entry(list, place(t, list, 0, command[*coordination.UpdateSemaphore])).Commands = nil
		return list
	}},
	"an answer is another than the model's": {"model", func(t *testing.T, list []Event) []Event {
		message(list, place(t, list, 0, result(model.Acquire))).GetAcquireSemaphoreResult().Acquired = false
		return list
	}},
	"an answer comes before its entry": {"model", func(t *testing.T, list []Event) []Event {
		from := place(t, list, 0, command[*coordination.UpdateSemaphore])
		to := place(t, list, 0, result(model.Update))
		executed := list[from]
		return slices.Insert(slices.Delete(list, from, from+1), to, executed)
	}},
	"a description was never true": {"model", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 1, result(model.Describe))
		message(list, at).GetDescribeSemaphoreResult().SemaphoreDescription.Data = []byte("other")
		return list
	}},
	"a strict description is old": {"model", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 1, result(model.Describe))
		message(list, at).GetDescribeSemaphoreResult().SemaphoreDescription.Data = nil
		return list
	}},
	"an entry before one that had been answered": {"time", func(t *testing.T, list []Event) []Event {
		release := entry(list, place(t, list, 0, command[*coordination.ReleaseSemaphore]))
		update := entry(list, place(t, list, 0, command[*coordination.UpdateSemaphore]))
		release.Index, update.Index = update.Index, release.Index
		return list
	}},
	"a command is in the log twice": {"log", func(t *testing.T, list []Event) []Event {
		e := entry(list, place(t, list, 0, command[*coordination.CreateSemaphore]))
		e.Commands = append(e.Commands, e.Commands[0])
		return list
	}},
	"a command for which no client asked": {"log", func(t *testing.T, list []Event) []Event {
		e := entry(list, place(t, list, 0, command[*coordination.UpdateSemaphore]))
		e.Commands[0].(*coordination.UpdateSemaphore).Data = []byte("other")
		return list
	}},
	"two servers have different entries": {"log", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 0, command[*coordination.ReleaseSemaphore])
		other := *entry(list, at)
		other.Term++
		return slices.Insert(list, at+1, Event{list[at].At, &Executed{Server: 2, Index: other.Index, Entry: &other}})
	}},
	"an answer never comes": {"answers", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 0, result(model.Update))
		return slices.Delete(list, at, at+1)
	}},
	"a describe is never answered": {"answers", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 1, result(model.Describe))
		return slices.Delete(list, at, at+1)
	}},
	"two answers": {"answers", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 0, result(model.Release))
		return slices.Insert(list, at+1, list[at])
	}},
	"an answer to no request": {"answers", func(t *testing.T, list []Event) []Event {
		message(list, place(t, list, 0, result(model.Release))).GetReleaseSemaphoreResult().ReqId = 99
		return list
	}},
	"two notices of one watch": {"watch", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 0, reply(model.ChangedBy))
		return slices.Insert(list, at+1, list[at])
	}},
	"a watch that never fires": {"watch", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 0, reply(model.ChangedBy))
		return slices.Delete(list, at, at+1)
	}},
	"a notice of something that did not happen": {"watch", func(t *testing.T, list []Event) []Event {
		message(list, place(t, list, 0, reply(model.ChangedBy))).GetDescribeSemaphoreChanged().DataChanged = true
		return list
	}},
	"a living session is expired": {"expiry", func(t *testing.T, list []Event) []Event {
		at := place(t, list, 4, reply(model.PongOut))
		attach := entry(list, place(t, list, 0, command[*coordination.Attach]))
		last := entry(list, place(t, list, 1, command[*coordination.AcquireSemaphore])).Index + 100
		epoch := attach.Commands[0].(*coordination.Attach).Epoch
		e := &coordination.Entry{Index: last, Term: attach.Term, Commands: []coordination.Command{
			&coordination.ExpireSession{Node: 1, Session: 1, AttachEpoch: epoch, Term: attach.Term}}}
		return slices.Insert(list, at+1, Event{list[at].At, &Executed{Server: 1, Index: last, Entry: e}})
	}},
	"two owners at once": {"belief", func(t *testing.T, list []Event) []Event {
		pending := place(t, list, 0, reply(model.Pending))
		granted := list[place(t, list, 1, result(model.Acquire))]
		granted.At = list[pending].At
		return slices.Insert(list, pending+1, granted)
	}},
}

func TestStoryPasses(t *testing.T) {
	s := story(t)
	found, _ := s.judge()
	for _, v := range found {
		t.Error(v)
	}
}

func TestLiesAreFound(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			s := story(t)
			events := lie.tell(t, slices.Clone(s.history.Events()))
			found, _ := Judge(events, Options{Patience: 2 * time.Second, Drift: 0.05})
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Kind == lie.kind }) {
				t.Errorf("found %v, want one of kind %s", found, lie.kind)
			}
		})
	}
}
