package coordination

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// versionsRig is a machine whose entries count changes, with a naive account of versions beside it.
type versionsRig struct {
	t       *testing.T
	machine *Machine
	index   Index
	stamp   uint64
	session SessionID
	calls   uint64
	known   map[string]uint64 // the versions of the semaphores that are there
	data    map[string]string
	given   map[string]bool // name and version of every state of data that there was, with the data
}

func newVersionsRig(t *testing.T) *versionsRig {
	m, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	r := &versionsRig{t: t, machine: m, known: make(map[string]uint64), data: make(map[string]string),
		given: make(map[string]bool)}
	r.apply(&CreateNode{Path: scheme.SplitLoose("/local/n")})
	r.attach(Identity{Kind: IdentityToken, Subject: "alice"})
	return r
}

func (r *versionsRig) attach(who Identity) {
	r.session++
	r.apply(&Attach{Node: 1, Epoch: Epoch{1, uint64(r.session)}, TimeoutMillis: 1000, Identity: who})
}

// apply applies an entry of one command, and returns its effects.
func (r *versionsRig) apply(c Command) []Effect {
	r.t.Helper()
	r.index++
	r.stamp += 10
	effects := r.machine.ApplyEntry(&Entry{Index: r.index, Term: 1, StampMillis: r.stamp, Versions: true,
		Commands: []Command{c}})
	if err := r.machine.Check(); err != nil {
		r.t.Fatalf("after %#v: %v", c, err)
	}
	return effects
}

func (r *versionsRig) origin() Origin {
	return Origin{Node: 1, Session: r.session, Address: Address{Epoch: Epoch{1, uint64(r.session)}, Sequence: 1}}
}

// update is an UpdateData of bob's, and returns its outcome.
func (r *versionsRig) update(name, data string, expected uint64) outcome.Outcome {
	r.t.Helper()
	r.calls++
	effects := r.apply(&UpdateData{CallID: CallID{r.calls}, Caller: Caller{Subject: "bob"}, Node: 1, Name: name,
		Data: []byte(data), Expected: expected})
	return effects[len(effects)-1].Outcome
}

// look compares a semaphore with what it should be. changed reports that it has just got other data, by the author.
func (r *versionsRig) look(name, data string, changed bool, author string) {
	r.t.Helper()
	row := r.machine.FindSemaphore(1, name)
	before := r.known[name]
	r.known[name], r.data[name] = row.Version, data
	state := fmt.Sprint(name, row.Version)
	switch {
	case row.ID == 0 || string(row.Data) != data:
		r.t.Fatalf("%q is %+v, want %q", name, row, data)
	case !changed && row.Version != before:
		r.t.Fatalf("%q goes from version %d to %d without a change", name, before, row.Version)
	case changed && before != 0 && row.Version != before+1 && row.Version <= LineageJump:
		r.t.Fatalf("%q goes from version %d to %d", name, before, row.Version)
	case changed && (r.given[state] || row.Version == 0):
		r.t.Fatalf("%q has version %d again", name, row.Version)
	case changed && (row.ChangedMillis != r.stamp || row.Author != author):
		r.t.Fatalf("%q changed at %d by %q, want %d by %q", name, row.ChangedMillis, row.Author, r.stamp, author)
	}
	r.given[state] = true
}

// reload stores the state and reads it back.
func (r *versionsRig) reload() {
	r.t.Helper()
	r.machine = restoredFrom(r.t, r.machine.AllRows())
}

// TestVersionsNeverRepeat draws histories of changes, deletions, restarts and restores, and sees that a version of a
// name never comes twice, grows by one with each change, and that an update with another version changes nothing.
func TestVersionsNeverRepeat(t *testing.T) {
	seed := rand.Uint64()
	for round := range 40 {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		t.Run(fmt.Sprintf("seed %d round %d", seed, round), func(t *testing.T) {
			r := newVersionsRig(t)
			stale := make(map[string][]uint64)
			for range 120 {
				name, data := fmt.Sprint("s", random.IntN(3)), fmt.Sprint(random.IntN(3))
				_, there := r.known[name]
				if v := r.known[name]; v != 0 {
					stale[name] = append(stale[name], v)
				}
				switch n := random.IntN(12); {
				case n < 3 && there:
					r.apply(&UpdateSemaphore{Origin: r.origin(), Name: name, Data: []byte(data)})
					r.look(name, data, data != r.data[name], "alice")
				case n < 3:
					r.apply(&CreateSemaphore{Origin: r.origin(), Name: name, Limit: 1, Data: []byte(data)})
					r.look(name, data, true, "alice")
				case n < 6:
					if answer := r.update(name, data, r.known[name]); !answer.OK() {
						t.Fatalf("update of %q with its version %d: %s", name, r.known[name], answer)
					}
					r.look(name, data, !there || data != r.data[name], "bob")
				case n < 9:
					r.refuse(name, there, random.Uint64N(12), stale[name])
				case n < 10 && there:
					r.apply(&DeleteSemaphore{Origin: r.origin(), Name: name})
					delete(r.known, name)
				case n < 11:
					r.reload()
				case random.IntN(3) == 0:
					r.restore(random)
				}
			}
		})
	}
}

// refuse updates with versions that a semaphore does not have.
func (r *versionsRig) refuse(name string, there bool, other uint64, stale []uint64) {
	for _, expected := range append(stale, other) {
		if expected == r.known[name] {
			continue
		}
		digest := r.machine.Digest()
		own := r.machine.ownRow()
		answer := r.update(name, "refused", expected)
		text := fmt.Sprintf("Version %d was expected, but it has version %d", expected, r.known[name])
		if !there {
			text = fmt.Sprintf("Version %d was expected, but there is no such semaphore", expected)
		}
		if answer.Status != outcome.Aborted || answer.Issues[0].Message != text {
			r.t.Fatalf("update of %q: %s, want %s", name, answer, text)
		}
		own.StampMillis = r.machine.stampMillis // all that an entry changes
		own.Index = r.index
		if now := r.machine.ownRow(); now != own || own.StampMillis == 0 || digest == 0 {
			r.t.Fatalf("a refused update leaves %+v, before %+v", now, own)
		}
		if there {
			r.look(name, r.data[name], false, "")
		}
	}
}

// restore goes on from a state of the past: what has come since is lost, and its versions were given out.
func (r *versionsRig) restore(random *rand.Rand) {
	rows, known, data := r.machine.AllRows(), map[string]uint64{}, map[string]string{}
	for name, version := range r.known {
		known[name], data[name] = version, r.data[name]
	}
	for range random.IntN(5) {
		name := fmt.Sprint("s", random.IntN(3))
		if text := fmt.Sprint("lost ", random.IntN(3)); r.update(name, text, r.known[name]).OK() {
			r.look(name, text, text != r.data[name], "bob")
		}
	}
	r.machine, r.known, r.data = restoredFrom(r.t, rows), known, data
	r.apply(&BeginLineage{Lineage: random.Uint64()})
}

// TestTwoWritersOneWins: of two updates of one version in an entry the second one is refused.
func TestTwoWritersOneWins(t *testing.T) {
	r := newVersionsRig(t)
	if answer := r.update("s", "", 0); !answer.OK() {
		t.Fatal(answer)
	}
	row := r.machine.FindSemaphore(1, "s")
	r.index++
	effects := r.machine.ApplyEntry(&Entry{Index: r.index, Term: 1, Versions: true, Commands: []Command{
		&UpdateData{CallID: CallID{100}, Node: 1, Name: "s", Data: []byte("a"), Expected: row.Version},
		&UpdateData{CallID: CallID{101}, Node: 1, Name: "s", Data: []byte("b"), Expected: row.Version}}})
	won := map[uint64]outcome.Status{}
	for _, e := range effects {
		if e.Kind == EffectCallDone {
			won[e.Call.Nonce] = e.Outcome.Status
		}
	}
	if won[100] != outcome.Success || won[101] != outcome.Aborted {
		t.Errorf("outcomes %v", won)
	}
	if now := r.machine.FindSemaphore(1, "s"); string(now.Data) != "a" || now.Version != row.Version+1 {
		t.Errorf("the semaphore is %+v", now)
	}
}

// TestChangesDoNotCountYet: nothing counts while a server may be there that cannot read versions. Semaphores of that
// time have version 1 afterwards, and only those.
func TestChangesDoNotCountYet(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	stream, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.request(stream, 1, Request{Kind: RequestCreate, Name: "old", Limit: 1})
	r.request(stream, 2, Request{Kind: RequestUpdate, Name: "old", Data: []byte("x")})
	r.applyAll()
	row := r.machine.FindSemaphore(1, "old")
	if own := r.machine.ownRow(); row.Version != 0 || own.NextVersion != 0 {
		t.Errorf("%+v, next %d", row, own.NextVersion)
	}
	r.index++
	r.replica.Committed(r.now, &Entry{Index: r.index, Term: r.term, Versions: true, Commands: []Command{&Mark{}}})
	r.request(stream, 3, Request{Kind: RequestCreate, Name: "new", Limit: 1}) // its entry does not say it again
	r.applyAll()
	old := r.machine.FindSemaphore(1, "old")
	made := r.machine.FindSemaphore(1, "new")
	if old.Version != 1 || made.Version != 2 {
		t.Errorf("old has version %d, new %d", old.Version, made.Version)
	}
	r.request(stream, 4, Request{Kind: RequestUpdate, Name: "old", Data: []byte("y")})
	r.request(stream, 5, tryLock)
	r.request(stream, 6, Request{Kind: RequestUpdate, Name: "lock", Data: []byte("y")})
	r.applyAll()
	old = r.machine.FindSemaphore(1, "old")
	lock := r.machine.FindSemaphore(1, "lock")
	if old.Version != 2 || lock.Version != 0 || string(lock.Data) != "y" {
		t.Errorf("old has version %d, the lock is %+v", old.Version, lock)
	}
	r.administer(outcome.PreconditionFailed, &UpdateData{Node: 1, Name: "lock"})
}

// TestAuthors: a user is named as long as he is there, and no longer name is kept than the row's charge covers.
func TestAuthors(t *testing.T) {
	r := newVersionsRig(t)
	r.apply(&AddUser{Name: "root", PasswordHash: "h"})
	r.apply(&AddUser{Name: "carol", PasswordHash: "h"})
	carol, _ := r.machine.accounts.User("carol")
	r.apply(&CreateSemaphore{Origin: r.origin(), Name: "s", Limit: 1})
	r.look("s", "", true, "alice")
	for i, test := range []struct {
		who  Identity
		want string
	}{
		{Identity{Kind: IdentityUser, User: carol.ID}, "carol"},
		{Identity{}, ""},
		{Identity{Kind: IdentityCertificate, Subject: strings.Repeat("x", MaxAuthorBytes+1)},
			strings.Repeat("x", MaxAuthorBytes)},
		{Identity{Kind: IdentityUser, User: accounts.Position{Index: 1}}, ""},
	} {
		r.attach(test.who)
		r.apply(&UpdateSemaphore{Origin: r.origin(), Name: "s", Data: []byte{byte(i)}})
		r.look("s", string([]byte{byte(i)}), true, test.want)
		r.reload()
	}
	r.attach(Identity{Kind: IdentityUser, User: carol.ID})
	r.apply(&RemoveUser{Name: "carol"})
	r.apply(&UpdateSemaphore{Origin: r.origin(), Name: "s", Data: []byte("z")})
	r.look("s", "z", true, "")
}

// TestUpdateDataIsBounded: it keeps the limits of the protocol and of the state, and needs the right to update rows.
func TestUpdateDataIsBounded(t *testing.T) {
	r := newVersionsRig(t)
	long, large := strings.Repeat("n", MaxSemaphoreNameBytes), strings.Repeat("d", MaxSemaphoreDataBytes)
	for _, test := range []struct {
		name, data string
		want       outcome.Status
	}{
		{long, large, outcome.Success}, {long + "n", "", outcome.BadRequest}, {"s", large + "d", outcome.BadRequest},
	} {
		if answer := r.update(test.name, test.data, 0); answer.Status != test.want {
			t.Errorf("%d and %d bytes: %s", len(test.name), len(test.data), answer)
		}
	}
	if answer := r.update("s", "", 0); !answer.OK() {
		t.Fatal(answer)
	}
	r.apply(&ModifyPermissions{Path: scheme.SplitLoose("/local/n"), Change: scheme.PermissionsChange{
		Actions: []scheme.Action{{Kind: scheme.Grant, Subject: "writer", Names: []string{"ydb.granular.update_row"}},
			{Kind: scheme.Grant, Subject: "reader", Names: []string{"ydb.granular.select_row"}}}}})
	version := func() uint64 {
		row := r.machine.FindSemaphore(1, "s")
		return row.Version
	}
	r.apply(&SetLimits{Limits: StateLimits{State: r.machine.Used() + 8, Semaphores: 2}})
	for data, want := range map[string]outcome.Status{"12345678": outcome.Success,
		"123456789": outcome.PreconditionFailed} {
		if answer := r.update("s", data, version()); answer.Status != want {
			t.Errorf("%q in a full state: %s", data, answer)
		}
	}
	if answer := r.update("more", "", 0); answer.Status != outcome.PreconditionFailed {
		t.Errorf("one semaphore more: %s", answer)
	}
	enforced := func(subject string) outcome.Status {
		effects := r.apply(&UpdateData{Caller: Caller{Subject: subject, Enforced: true}, Node: 1, Name: "s",
			Data: []byte(subject), Expected: version()})
		return effects[len(effects)-1].Outcome.Status
	}
	if reader, writer := enforced("reader"), enforced("writer"); reader != outcome.Unauthorized ||
		writer != outcome.Success {
		t.Errorf("a reader: %s, a writer: %s", reader, writer)
	}
}
