package coordination

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// occurred returns the occurrences since the last call, in short words.
func (r *rig) occurred() (words []string) {
	names := map[OccurrenceKind]string{OccurSessionStarted: "started", OccurSessionAttached: "attached",
		OccurSessionDetached: "detached", OccurSessionStopped: "stopped", OccurSessionExpired: "expired",
		OccurSessionEnded: "ended", OccurLockGranted: "granted", OccurLockAwaited: "awaited",
		OccurLockLost: "lost", OccurWaitEnded: "gave up", OccurSemaphoreDeleted: "deleted",
		OccurSemaphoreCreated: "created", OccurDataChanged: "changed",
		OccurNodeDropped: "dropped"}
	for _, o := range r.machine.Occurred() {
		word := fmt.Sprintf("%d %s", o.Session, names[o.Kind])
		if o.Semaphore != "" {
			word += fmt.Sprintf(" %s %d", o.Semaphore, o.Order)
		}
		if o.Kind == OccurNodeDropped {
			word = fmt.Sprintf("node %d dropped with %d at %s by %s", o.Node, o.Count, o.More.Path,
				o.More.User)
		} else if o.Kind == OccurAdministered {
			word = fmt.Sprintf("%s %s %s by %s", o.More.Act, o.More.Path, o.More.Target, o.More.User)
		} else if o.More != nil && o.More.User != "" {
			word += fmt.Sprintf(" by %s: %s", o.More.User, o.More.Reason)
		}
		words = append(words, word)
	}
	return words
}

// Occurrences are the events, in their order, each once.
func TestOccurrences(t *testing.T) {
	r := newRig(t)
	r.machine.Observe()
	want := func(what string, want ...string) {
		t.Helper()
		r.applyAll()
		if got := r.occurred(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	r.createNode("/local/n", relaxed)
	one := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	two := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	want("starts", "create node /local/n  by ", "1 started", "2 started")
	r.request(one, 1, tryLock)
	r.request(two, 1, waitLock)
	want("a lock", "1 granted lock 1", "2 awaited lock 2")
	r.request(two, 2, waitLock)
	want("it goes on waiting")
	r.request(one, 2, release)
	want("handed on", "1 lost lock 1", "2 granted lock 2")
	r.request(one, 3, waitLock)
	r.request(one, 4, release)
	want("given up", "1 awaited lock 3", "1 gave up lock 3")
	r.request(one, 5, waitLock)
	r.applyAll()
	r.occurred()
	r.pass(5000)
	r.tick()
	want("timed out", "1 gave up lock 4")
	r.leader.Detach(r.now, two)
	want("detached", "2 detached")
	two = r.open(AttachRequest{Path: "/local/n", Session: 2, TimeoutMillis: 5000})
	want("attached without the log", "2 attached")
	r.leader.Detach(r.now, two)
	r.open(AttachRequest{Path: "/local/n", Session: 2, TimeoutMillis: 6000})
	want("attached with it", "2 detached", "2 attached")
	r.call(&EndSession{Caller: Caller{Subject: "root"}, Node: 1, Session: 2, Reason: "why not"})
	want("ended", "2 ended by root: why not", "2 lost lock 2")
	r.request(one, 6, Request{Kind: RequestCreate, Name: "s", Limit: 1})
	r.request(one, 7, Request{Kind: RequestAcquire, Name: "s", Count: 1})
	r.request(one, 8, Request{Kind: RequestDelete, Name: "s", Force: true})
	want("a semaphore", "1 created s 0", "1 granted s 5", "1 lost s 5", "1 deleted s 0")
	r.request(one, 9, Request{Kind: RequestStop})
	want("stopped", "1 stopped")
	three := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.applyAll()
	r.leader.Detach(r.now, three)
	r.pass(5000)
	r.tick()
	want("expired", "3 started", "3 detached", "3 expired")
	r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	holder := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.applyAll()
	r.request(holder, 10, Request{Kind: RequestAcquire, Name: "held", Count: 1, Ephemeral: true})
	r.applyAll()
	r.occurred()
	r.call(&DropNode{Caller: Caller{Subject: "root"}, Path: pathOf("/local/n")})
	want("dropped", "node 1 dropped with 2 at /local/n by root")
}

// What a lock costs in allocations is the same whether somebody observes or not.
func TestOccurrencesDoNotAllocate(t *testing.T) {
	cost := func(observed bool) float64 {
		m := busyNode(t, 1, 1)
		if observed {
			m.Observe()
		}
		acquire := &AcquireSemaphore{Origin: Origin{Node: 1, Session: 1, Address: Address{Epoch{1, 1}, 1}},
			Name: "x", Count: 1, Ephemeral: true}
		give := &ReleaseSemaphore{Origin: acquire.Origin, Name: "x"}
		return testing.AllocsPerRun(200, func() {
			m.Apply(m.index+1, 1, acquire)
			m.Apply(m.index+1, 1, give)
			m.Occurred()
		})
	}
	if without, with := cost(false), cost(true); with > without {
		t.Errorf("%v allocations with an observer, %v without", with, without)
	}
}

// TestEndsNameTheirClients ends sessions in each way: the occurrence has the client, which only the leader knew, and
// every server that executes the log has the same occurrences.
func TestEndsNameTheirClients(t *testing.T) {
	r := newRig(t)
	r.machine.Observe()
	other, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	other.Observe()
	var copied []Occurrence
	r.executing = func(e *Entry) {
		other.ApplyEntry(e)
		copied = append(copied, other.Occurred()...)
	}
	r.createNode("/local/n", relaxed)
	client := &Client{Peer: "10.0.0.7:51234", Library: "ydb-go-sdk/3", User: "alice"}
	attach := AttachRequest{Path: "/local/n", TimeoutMillis: 5000, Description: "worker-7", Client: client}
	held := func(name string) StreamID {
		stream := r.open(attach)
		r.applyAll()
		r.request(stream, 1, Request{Kind: RequestAcquire, Name: name, Count: 1, Ephemeral: true})
		r.applyAll()
		return stream
	}
	expires, lost, stops, _ := held("expires"), held("lost"), held("stops"), held("killed")
	r.leader.Detach(r.now, held("away"))
	r.pass(2000)
	r.call(&EndSession{Caller: Caller{Subject: "root"}, Node: 1, Session: 5})
	r.leader.Detach(r.now, expires)
	r.leader.Lose(r.now, lost)
	r.request(stops, 2, Request{Kind: RequestStop})
	r.call(&EndSession{Caller: Caller{Subject: "root"}, Node: 1, Session: 4, Reason: "stuck"})
	r.pass(6000)
	r.tick()
	r.applyAll()
	var logged []Occurrence
	ends := make(map[string]string)
	for _, o := range r.machine.Occurred() {
		if o.Number != 0 {
			logged = append(logged, o)
		}
		if more := o.More; o.Kind == OccurLockLost {
			ends[o.Semaphore] += fmt.Sprintf(", lost by %d", o.Cause)
		} else if more != nil && more.Held > 0 {
			ends[more.Names[0]] = fmt.Sprintf("%d %s %s %s %s %d %d of %s", o.Kind, more.Description,
				more.Client.Peer, more.Client.User, more.Client.Library, more.Client.SilentMillis, more.Client.Lost,
				more.Path)
		}
	}
	who := " worker-7 10.0.0.7:51234 alice ydb-go-sdk/3 "
	for name, want := range map[string]string{
		"expires": fmt.Sprintf("%d%s6000 1 of /local/n, lost by %[1]d", OccurSessionExpired, who),
		"lost":    fmt.Sprintf("%d%s6000 2 of /local/n, lost by %[1]d", OccurSessionExpired, who),
		"stops":   fmt.Sprintf("%d%s0 0 of /local/n, lost by %[1]d", OccurSessionStopped, who),
		"killed":  fmt.Sprintf("%d%s0 0 of /local/n, lost by %[1]d", OccurSessionEnded, who),
		"away":    fmt.Sprintf("%d%s2000 1 of /local/n, lost by %[1]d", OccurSessionEnded, who),
	} {
		if ends[name] != want {
			t.Errorf("%s: %q, want %q", name, ends[name], want)
		}
	}
	if !reflect.DeepEqual(logged, copied) {
		t.Errorf("one server has\n%+v\nanother one\n%+v", logged, copied)
	}
}

// TestKilledAsItsLockIsGranted kills a session in the entry in which it gets a lock that another one gives back: it
// held the lock, from that entry to that entry.
func TestKilledAsItsLockIsGranted(t *testing.T) {
	m, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	apply := func(commands ...Command) {
		m.ApplyEntry(&Entry{Index: m.Index() + 1, Term: 1, StampMillis: 9000, Commands: commands})
	}
	origin := func(session SessionID) Origin {
		return Origin{Node: 1, Session: session, Address: Address{Epoch{1, uint64(session)}, 1}}
	}
	apply(&CreateNode{Path: pathOf("/local/n")})
	for session := SessionID(1); session <= 2; session++ {
		apply(&Attach{Node: 1, Epoch: origin(session).Address.Epoch, TimeoutMillis: 5000})
		apply(&AcquireSemaphore{Origin: origin(session), Name: "lock", Count: Infinite, Ephemeral: true,
			TimeoutMillis: Infinite})
	}
	m.Observe()
	apply(&ReleaseSemaphore{Origin: origin(1), Name: "lock"},
		&EndSession{Caller: Caller{Subject: "root"}, Node: 1, Session: 2})
	var got []string
	for _, o := range m.Occurred() {
		text := fmt.Sprintf("%d of %d by %d from %d to %d", o.Kind, o.Session, o.Cause, o.Before, o.StampMillis)
		if o.More != nil {
			text += fmt.Sprintf(" held %d of %q", o.More.Held, o.More.Names)
		}
		got = append(got, text)
	}
	want := []string{fmt.Sprintf("%d of 1 by 0 from 9000 to 9000", OccurLockLost),
		fmt.Sprintf("%d of 2 by 0 from 0 to 9000", OccurLockGranted),
		fmt.Sprintf(`%d of 2 by 0 from 0 to 9000 held 1 of ["lock"]`, OccurSessionEnded),
		fmt.Sprintf("%d of 2 by %d from 9000 to 9000", OccurLockLost, OccurSessionEnded)}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestCallsOccur makes each change that administrators make.
func TestCallsOccur(t *testing.T) {
	r := newRig(t)
	r.machine.Observe()
	r.createNode("/local/n", relaxed)
	by := Caller{Subject: "root"}
	path := pathOf("/local/n")
	rate := ResourceProperties{MaxUnitsPerSecond: RealOf(5)}
	for _, c := range []Command{
		&AlterNode{Caller: by, Path: path},
		&MakeDirectory{Caller: by, Path: pathOf("/local/d")},
		&ModifyPermissions{Caller: by, Path: path, Change: scheme.PermissionsChange{Actions: []scheme.Action{
			{Kind: scheme.Grant, Subject: "alice", Names: []string{"ydb.generic.use"}}}}},
		&SetQuota{Caller: by, Path: pathOf("/local/d"), Quota: scheme.Quota{Bytes: 1 << 20, Entries: 80}},
		&RemoveDirectory{Caller: by, Path: pathOf("/local/d")},
		&SetLimits{Caller: by, Limits: StateLimits{State: 1 << 30}},
		&CreateResource{Caller: by, Path: path, Resource: "r", ResourceProperties: rate},
		&AlterResource{Caller: by, Path: path, Resource: "r", ResourceProperties: rate},
		&DropResource{Caller: by, Path: path, Resource: "r"},
		&AddUser{Caller: by, Name: "bob", PasswordHash: "x"},
		&SetPassword{Caller: by, Name: "bob", PasswordHash: "y"},
		&RemoveUser{Caller: by, Name: "bob"},
		&RemoveUser{Caller: by, Name: "nobody"}, // refused
	} {
		r.call(c)
		r.applyAll()
	}
	got := r.occurred()
	want := []string{"create node /local/n  by ", "alter node /local/n  by root", "make directory /local/d  by root",
		"change permissions /local/n grant alice ydb.generic.use by root",
		"set quota /local/d 1048576 bytes, 80 entries by root", "remove directory /local/d  by root",
		"set limits  1073741824 bytes by root",
		"create resource /local/n r by root", "alter resource /local/n r by root", "drop resource /local/n r by root",
		"add user  bob by root", "set password  bob by root", "remove user  bob by root"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestSettingHistoryIsAnEvent: it makes every server forget former data, so it is an act that has an event.
func TestSettingHistoryIsAnEvent(t *testing.T) {
	r := newVersionsRig(t)
	r.machine.Observe()
	var got []string
	for _, history := range []History{HistoryData, HistoryNone, HistoryMeta} {
		r.apply(&SetHistory{Path: pathOf("/local/n"), Caller: Caller{Subject: "root"}, History: history})
		for _, o := range r.machine.Occurred() {
			got = append(got, o.More.Act+" "+o.More.Path+" "+o.More.Target+" by "+o.More.User)
		}
	}
	if want := []string{"set history /local/n data by root", "set history /local/n none by root",
		"set history /local/n meta by root"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestInvalidatingTokensIsAnEvent: a key that an administrator replaces ends all logins. The one that a server makes by
// itself has no event.
func TestInvalidatingTokensIsAnEvent(t *testing.T) {
	r := newVersionsRig(t)
	r.machine.Observe()
	r.apply(&RotateSigningKey{Secret: make([]byte, 32), StampMillis: 1})
	r.machine.Occurred()
	key := r.machine.Accounts().SigningKeys()[0]
	r.apply(&RotateSigningKey{Secret: make([]byte, 32), StampMillis: 2, After: key.ID, DropBeforeMillis: math.MaxUint64,
		Caller: Caller{Subject: "root"}})
	if got := r.machine.Occurred(); len(got) != 1 || got[0].More.User != "root" {
		t.Errorf("%+v", got)
	}
}
