package coordination

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

func quotaOf(path string, bytes, entries uint64) *SetQuota {
	return &SetQuota{Path: pathOf(path), Quota: scheme.Quota{Bytes: bytes, Entries: entries}}
}

// wantRefused makes a call that must be refused with this text.
func (r *rig) wantRefused(c Command, text string) {
	r.t.Helper()
	if answer := r.outcome(c); answer.Status != outcome.PreconditionFailed || !strings.Contains(answer.String(), text) {
		r.t.Errorf("%T: got %s, want %q", c, answer, text)
	}
}

// TestQuotaOfEntries bounds how many paths there are below a directory. Every quota above is asked, and the
// nearest that has no room is named.
func TestQuotaOfEntries(t *testing.T) {
	r := newRig(t)
	r.run(&MakeDirectory{Path: pathOf("/local/team/a")})
	r.run(quotaOf("/local/team", 0, 3))
	r.run(&MakeDirectory{Path: pathOf("/local/team/b")})
	r.wantRefused(&MakeDirectory{Path: pathOf("/local/team/a/b/c")}, "Quota of /local/team is used up")
	r.run(quotaOf("/local/team/a", 0, 1))
	r.wantRefused(&CreateNode{Path: pathOf("/local/team/a/b/c")}, "Quota of /local/team/a is used up")
	r.run(&CreateNode{Path: pathOf("/local/team/a/n")})
	r.wantRefused(&CreateNode{Path: pathOf("/local/team/n")}, "Quota of /local/team is used up")
	r.run(quotaOf("/local/team/a", 0, 9)) // which leaves that of what is above
	r.wantRefused(&MakeDirectory{Path: pathOf("/local/team/a/m")}, "Quota of /local/team is used up")
	r.run(&CreateNode{Path: pathOf("/local/elsewhere")})
	r.run(&DropNode{Path: pathOf("/local/team/a/n")})
	r.run(&CreateNode{Path: pathOf("/local/team/n")})
	if answer := r.outcome(quotaOf("/local/team/n", 0, 1)); answer.Status != outcome.BadRequest {
		t.Errorf("entries of a node: got %s", answer)
	}
	if err := r.machine.Check(); err != nil {
		t.Error(err)
	}
}

// TestQuotaBelowWhatIsUsed refuses growth and takes nothing away, also after the state was loaded; without
// the quota everything goes on.
func TestQuotaBelowWhatIsUsed(t *testing.T) {
	r, stream, _ := roomRig(t)
	r.request(stream, 1, createLock)
	r.applyAll()
	r.run(quotaOf("/local/a", 1, 0))
	r.run(quotaOf("/local", 1<<40, 0))
	used := *r.machine.tree.Account(pathOf("/local"))
	r.start(reread(t, r.machine))
	if got := r.machine.tree.Account(pathOf("/local")); got == nil || *got != used {
		t.Errorf("after loading: %+v, before %+v", got, used)
	}
	stream, _ = r.attach(AttachRequest{Path: "/local/a", Session: 1, TimeoutMillis: 1000, SeqNo: 1})
	r.said()
	r.request(stream, 1, updateLock("longer than before"))
	acquireLock := Request{Kind: RequestAcquire, Name: "lock", Count: 1}
	r.request(stream, 2, acquireLock)
	r.applyAll()
	r.expect("2 #1 Quota of /local/a is used up", "2 #2 Quota of /local/a is used up")
	r.run(quotaOf("/local/a", 0, 0))
	r.request(stream, 3, acquireLock)
	r.request(stream, 4, release)
	r.applyAll()
	r.expect("2 #3 done true", "2 #4 done true")
	if err := r.machine.Check(); err != nil {
		t.Error(err)
	}
}

// TestQuotasAreForAdministrators: others may not set them, whatever rights they have.
func TestQuotasAreForAdministrators(t *testing.T) {
	r := newRig(t)
	r.run(&AddUser{Name: "root", PasswordHash: "hash"})
	r.run(&MakeDirectory{Path: pathOf("/local/team"), Owner: "bob"})
	for name, want := range map[string]outcome.Status{"bob": outcome.Unauthorized, "root": outcome.Success} {
		c := quotaOf("/local/team", 1<<20, 0)
		c.Caller = Caller{Subject: name, Enforced: true}
		if answer := r.outcome(c); answer.Status != want {
			t.Errorf("%s: got %s", name, answer)
		}
	}
}

// TestReserveOfTheState lets administrators go on where the state is full for all others. What makes the
// state no larger is for everybody.
func TestReserveOfTheState(t *testing.T) {
	r, stream, _ := roomRig(t)
	r.run(&AddUser{Name: "root", PasswordHash: "hash"})
	r.request(stream, 1, tryLock)
	r.applyAll()
	used := r.machine.Used()
	r.run(&SetLimits{Limits: StateLimits{State: used + 4*rowBytes, Reserve: 4 * rowBytes}})
	r.said()
	r.request(stream, 2, Request{Kind: RequestCreate, Name: "other", Limit: 1})
	r.applyAll()
	r.expect("1 #2 Cluster state has no space left")
	bob, root := Caller{Subject: "bob", Enforced: true}, Caller{Subject: "root", Enforced: true}
	r.run(&MakeDirectory{Caller: root, Path: pathOf("/local/bobs"), Owner: "bob"})
	r.wantRefused(&MakeDirectory{Caller: bob, Path: pathOf("/local/bobs/more")}, "no space left")
	r.run(&AddUser{Caller: root, Name: "carol", PasswordHash: "hash"})
	r.wantRefused(&AddUser{Caller: root, Name: strings.Repeat("d", 256), PasswordHash: strings.Repeat("h", 1024)},
		"no space left")
	r.request(stream, 3, release)
	r.request(stream, 4, Request{Kind: RequestStop})
	r.applyAll()
	if len(r.machine.inOrder.first.sessions) != 0 {
		t.Error("the session has not ended")
	}
	if err := r.machine.Check(); err != nil {
		t.Error(err)
	}
}
