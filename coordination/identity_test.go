package coordination_test

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// owned is a node with a session of Alice's, which has no key.
type owned struct {
	*led
	session  coordination.SessionID
	attached coordination.Message
}

func tokenOf(subject string) coordination.Identity {
	return coordination.Identity{Kind: coordination.IdentityToken, Subject: subject}
}

func newOwned(t *testing.T, key string) *owned {
	t.Helper()
	l := newLed(t)
	l.want(outcome.Success, &coordination.AddUser{Name: "root", PasswordHash: "h"})
	for subject, names := range map[string]string{"alice": "ydb.generic.read", "reader": "ydb.generic.read",
		"writer": "ydb.granular.update_row"} {
		l.permit(scheme.Grant, subject, names)
	}
	o := &owned{led: l}
	l.leader.Attach(0, 1, coordination.AttachRequest{Path: "/local/node", TimeoutMillis: 1000,
		ProtectionKey: key, Caller: enforced("alice"), Identity: tokenOf("alice")})
	o.attached = l.run()[0]
	o.session = o.attached.Session
	if o.attached.Kind != coordination.MessageAttached {
		t.Fatalf("got %+v", o.attached)
	}
	return o
}

// start attaches the session and returns the messages to each stream at the end.
func (o *owned) start(stream coordination.StreamID, caller coordination.Caller, who coordination.Identity,
	key string, timeout uint64) []coordination.Message {
	o.leader.Attach(0, stream, coordination.AttachRequest{Path: "/local/node", Session: o.session,
		TimeoutMillis: timeout, ProtectionKey: key, Caller: caller, Identity: who, SeqNo: uint64(stream)})
	return o.run()
}

var strangers = []struct {
	name   string
	caller coordination.Caller
	who    coordination.Identity
	key    string // of the session, and sent
	may    bool
}{
	{"the owner", enforced("alice"), tokenOf("alice"), "", true},
	{"another of the name", enforced("alice"),
		coordination.Identity{Kind: coordination.IdentityUser, User: accounts.Position{Index: 3}}, "", false},
	{"a certificate of the name", enforced("alice"),
		coordination.Identity{Kind: coordination.IdentityCertificate, Subject: "alice"}, "", false},
	{"nobody that is known", enforced("alice"), coordination.Identity{}, "", false},
	{"who may read", enforced("reader"), tokenOf("reader"), "", false},
	{"who may read and has the key", enforced("reader"), tokenOf("reader"), "key", true},
	{"who may write", enforced("writer"), tokenOf("writer"), "", true},
	{"an administrator", enforced("root"), tokenOf("root"), "", true},
	{"where rights do not count", coordination.Caller{}, coordination.Identity{}, "", true},
}

// TestSessionOfAnother lets all kinds of strangers attach a session, through the log and in relaxed mode. Who
// is refused disturbs nobody.
func TestSessionOfAnother(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		for _, test := range strangers {
			o := newOwned(t, test.key)
			if relaxed {
				mode := coordination.NodeConfig{AttachConsistencyMode: coordination.ConsistencyRelaxed}
				o.want(outcome.Success, &coordination.AlterNode{Path: o.path, Config: mode})
			}
			messages := o.start(2, test.caller, test.who, test.key, 1000)
			if test.may {
				if len(messages) != 2 || messages[1].Kind != coordination.MessageAttached ||
					messages[0].Stream != 1 {
					t.Errorf("%s, relaxed %v: got %+v", test.name, relaxed, messages)
				}
				continue
			}
			if len(messages) != 1 || messages[0].Stream != 2 || messages[0].Refusal != coordination.NoAccess {
				t.Errorf("%s, relaxed %v: got %+v", test.name, relaxed, messages)
			}
			o.leader.Request(0, 1, &coordination.Forward{Sequence: 1, Acknowledged: 1,
				Request: &coordination.Request{Kind: coordination.RequestStop}})
			if messages := o.run(); len(messages) != 1 || messages[0].Kind != coordination.MessageStopped {
				t.Errorf("%s, relaxed %v: the owner's stream: got %+v", test.name, relaxed, messages)
			}
		}
	}
}

// TestSessionOfAnotherIsNotResumed has strangers claim the session before the next leader.
func TestSessionOfAnotherIsNotResumed(t *testing.T) {
	for _, test := range strangers {
		o := newOwned(t, test.key)
		rights := coordination.RightRead
		switch test.name {
		case "who may write":
			rights = coordination.RightWrite
		case "an administrator", "where rights do not count":
			rights = coordination.AllRights
		}
		o.leader = coordination.NewLeader(o.machine, 2, 0)
		o.leader.Resume(0, 2, &coordination.Roster{Node: o.attached.Node, Session: o.session,
			Epoch: o.attached.Epoch, Rights: rights, Path: "/local/node", Caller: test.caller,
			Identity: test.who, TimeoutMillis: 1000})
		messages := o.run()
		if resumed := messages[0].Kind == coordination.MessageResumed; resumed != test.may || !resumed &&
			messages[0].Refusal != coordination.NoAccess {
			t.Errorf("%s: got %+v", test.name, messages)
		}
	}
}

// TestSessionOfAnotherOnApply applies attaches that a leader would not have proposed, and one whose session
// came to be by another's wish of the same name.
func TestSessionOfAnotherOnApply(t *testing.T) {
	for _, test := range []struct {
		name    string
		command coordination.Attach
		may     bool
	}{
		{"nobody", coordination.Attach{Session: 1}, false},
		{"another", coordination.Attach{Session: 1, Identity: tokenOf("bob")}, false},
		{"the owner", coordination.Attach{Session: 1, Identity: tokenOf("alice")}, true},
		{"who may write", coordination.Attach{Session: 1, Identity: tokenOf("bob"), MayWrite: true}, true},
		{"a wish of the same name", coordination.Attach{Nonce: 7, Identity: tokenOf("bob")}, false},
		{"the wish again", coordination.Attach{Nonce: 7, Identity: tokenOf("alice")}, true},
	} {
		l := newLed(t)
		first := coordination.Attach{Node: 1, Nonce: 7, Identity: tokenOf("alice"),
			Epoch: coordination.Epoch{Term: 1, Counter: 1}, TimeoutMillis: 5}
		second := test.command
		second.Node, second.Epoch, second.TimeoutMillis = 1, coordination.Epoch{Term: 1, Counter: 2}, 6
		l.machine.Apply(l.machine.Index()+1, 1, &first)
		effects := l.machine.Apply(l.machine.Index()+1, 1, &second)
		if len(effects) != 1 || (effects[0].Kind == coordination.EffectAttached) != test.may {
			t.Errorf("%s: got %+v", test.name, effects)
		}
		if !test.may && effects[0].Refusal != coordination.NoAccess {
			t.Errorf("%s: got %+v", test.name, effects)
		}
	}
}

// TestSessionOfNobody attaches a session that has no owner: it was made where nobody is asked, or is older
// than owners.
func TestSessionOfNobody(t *testing.T) {
	l := newLed(t)
	l.permit(scheme.Grant, "reader", "ydb.generic.read")
	l.leader.Attach(0, 1, coordination.AttachRequest{Path: "/local/node", TimeoutMillis: 1000})
	session := l.run()[0].Session
	o := &owned{led: l, session: session}
	for _, timeout := range []uint64{1000, 2000} {
		messages := o.start(2, enforced("reader"), tokenOf("reader"), "", timeout)
		if len(messages) == 0 || messages[len(messages)-1].Kind != coordination.MessageAttached {
			t.Errorf("got %+v", messages)
		}
	}
	rows := l.machine.AllRows()
	at := slices.IndexFunc(rows, func(r coordination.Row) bool {
		_, is := r.(coordination.SessionRow)
		return is
	})
	if row := rows[at].(coordination.SessionRow); row.Owner != (coordination.Identity{}) {
		t.Errorf("who attached a session of nobody owns it: %+v", row)
	}
}

// TestOwnerIsStored reads the state from a checkpoint: the session is still its owner's.
func TestOwnerIsStored(t *testing.T) {
	o := newOwned(t, "")
	restorer, err := coordination.NewRestorer("/local", coordination.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range o.machine.AllRows() {
		if err := restorer.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	m, err := restorer.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if m.Digest() != o.machine.Digest() {
		t.Error("the digests differ")
	}
	o.machine = m
	o.leader = coordination.NewLeader(m, 2, 0)
	if messages := o.start(2, enforced("reader"), tokenOf("reader"), "", 1000); len(messages) != 1 ||
		messages[0].Refusal != coordination.NoAccess {
		t.Errorf("got %+v", messages)
	}
}

// TestNoOwnerBeforeAllCanRead starts a session while a member of the cluster knows of no owners.
func TestNoOwnerBeforeAllCanRead(t *testing.T) {
	since := func(c coordination.Command) uint64 {
		if c, is := c.(*coordination.Attach); is && c.Identity != (coordination.Identity{}) {
			return 2
		}
		return 1
	}
	l := newLed(t)
	r := coordination.NewReplica[coordination.StreamID, coordination.CallID](l.machine,
		coordination.Formats{Version: 2, Since: since})
	r.Leading(1, 0)
	r.Committed(0, &coordination.Entry{Index: l.machine.Index() + 1, Term: 1})
	for _, readable := range []uint64{1, 2, 1} {
		r.Admit(readable, false)
		stream := coordination.StreamID(l.machine.Index())
		r.Forward(0, r.Reign(), stream, stream,
			coordination.Forward{Attach: &coordination.AttachRequest{Path: "/local/node", TimeoutMillis: 1000,
				Caller: enforced("maker"), Identity: tokenOf("maker")}})
		work := r.Take()
		if len(work.Commands) != 1 || since(work.Commands[0]) != readable {
			t.Fatalf("version %d can be read: got %+v", readable, work.Commands)
		}
		r.Committed(0, &coordination.Entry{Index: l.machine.Index() + 1, Term: 1, Commands: work.Commands})
	}
}
