package coordination_test

import (
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// led is a machine with one node and its leader; commands that the leader proposes are applied at once.
type led struct {
	users
	leader *coordination.Leader
	path   scheme.Path
}

func newLed(t *testing.T) *led {
	t.Helper()
	u := newUsers(t)
	path := scheme.SplitLoose("/local/node")
	u.want(outcome.Success, &coordination.CreateNode{Path: path, Owner: "maker"})
	return &led{u, coordination.NewLeader(u.machine, 1, 0), path}
}

// run applies what is proposed and returns the messages, until there is no more of either.
func (l *led) run() []coordination.Message {
	var messages []coordination.Message
	for {
		out := l.leader.Take()
		if len(out.Commands) == 0 && len(out.Messages) == 0 {
			return messages
		}
		messages = append(messages, out.Messages...)
		for _, c := range append([]coordination.Command(nil), out.Commands...) {
			l.leader.Applied(0, 1, c, l.machine.Apply(l.machine.Index()+1, 1, c))
		}
	}
}

func (l *led) attach(stream coordination.StreamID, subject string) coordination.Message {
	l.t.Helper()
	l.leader.Attach(0, stream, coordination.AttachRequest{Path: "/local/node", TimeoutMillis: 1000,
		Caller: enforced(subject)})
	messages := l.run()
	if len(messages) != 1 {
		l.t.Fatalf("got %v, want one message", messages)
	}
	return messages[0]
}

func (l *led) permit(kind scheme.ActionKind, subject string, names ...string) {
	l.t.Helper()
	l.want(outcome.Success, &coordination.ModifyPermissions{Path: l.path, Change: scheme.PermissionsChange{
		Actions: []scheme.Action{{Kind: kind, Subject: subject, Names: names}}}})
}

func TestRightsAtStart(t *testing.T) {
	l := newLed(t)
	l.want(outcome.Success, &coordination.AddUser{Name: "root", PasswordHash: "h"})
	l.permit(scheme.Grant, "reader", "ydb.generic.read")
	l.permit(scheme.Grant, "writer", "ydb.granular.update_row")
	l.permit(scheme.Grant, "eraser", "ydb.granular.erase_row")
	l.permit(scheme.Grant, "lister", "ydb.generic.list")
	for i, test := range []struct {
		subject string
		want    coordination.Rights // 0: no access
	}{
		{"reader", coordination.RightRead},
		{"writer", coordination.RightWrite},
		{"eraser", coordination.RightErase},
		{"maker", coordination.AllRights},
		{"root", coordination.AllRights},
		{"lister", 0},
		{"eve", 0},
		{"", 0},
	} {
		m := l.attach(coordination.StreamID(i+1), test.subject)
		switch {
		case test.want == 0 && (m.Kind != coordination.MessageEnd || m.Refusal != coordination.NoAccess):
			t.Errorf("%q: got %+v, want the end", test.subject, m)
		case test.want != 0 && (m.Kind != coordination.MessageAttached || m.Rights != test.want):
			t.Errorf("%q: got %+v, want rights %b", test.subject, m, test.want)
		}
	}
}

// A right that is lost ends the stream, and its session begins to run out; other streams go on.
func TestLostRightEndsStream(t *testing.T) {
	l := newLed(t)
	l.permit(scheme.Grant, "alice", "ydb.generic.use")
	l.permit(scheme.Grant, "bob", "ydb.generic.use")
	l.attach(1, "alice")
	l.attach(2, "bob")
	l.permit(scheme.Grant, "alice", "ydb.generic.full")
	l.leader.RecheckAccess(0)
	if messages := l.run(); len(messages) > 0 {
		t.Errorf("a right that is new: got %v", messages)
	}
	l.permit(scheme.Set, "alice", "ydb.generic.read")
	l.leader.RecheckAccess(0)
	messages := l.run()
	if len(messages) != 1 || messages[0].Stream != 1 || messages[0].Refusal != coordination.NoAccess {
		t.Fatalf("got %v, want the end of stream 1", messages)
	}
	l.leader.RecheckAccess(0)
	if messages := l.run(); len(messages) > 0 {
		t.Errorf("once more: got %v", messages)
	}
	if l.leader.NextDeadline() == coordination.Never {
		t.Error("the session of the ended stream does not run out")
	}
}

// The permissions are looked at once for each user of a node, however many streams there are: they may be
// long.
func TestRecheckLooksOncePerUser(t *testing.T) {
	l := newLed(t)
	l.permit(scheme.Grant, "alice", "ydb.generic.use")
	l.permit(scheme.Grant, "bob", "ydb.generic.use")
	for i := range coordination.StreamID(200) {
		l.attach(2*i+1, "alice")
		l.attach(2*i+2, "bob")
	}
	l.permit(scheme.Set, "bob", "ydb.generic.read")
	if looked := l.leader.RecheckAccess(0); looked != 2 {
		t.Errorf("looked %d times, want 2", looked)
	}
	if messages := l.run(); len(messages) != 200 {
		t.Errorf("%d streams were ended, want those of bob", len(messages))
	}
}

// A stream whose rights are lost while it attaches is ended, and its new session with it.
func TestRightLostWhileAttaching(t *testing.T) {
	l := newLed(t)
	l.permit(scheme.Grant, "alice", "ydb.generic.use")
	l.leader.Attach(0, 1, coordination.AttachRequest{Path: "/local/node", TimeoutMillis: 1000,
		Caller: enforced("alice")})
	l.permit(scheme.Revoke, "alice", "ydb.generic.use")
	l.leader.RecheckAccess(0)
	messages := l.run()
	if len(messages) != 1 || messages[0].Refusal != coordination.NoAccess {
		t.Fatalf("got %v", messages)
	}
}

// A new leader looks at the rights of the streams that it takes over: they may have been lost while there was
// none.
func TestRightLostBetweenLeaders(t *testing.T) {
	l := newLed(t)
	l.permit(scheme.Grant, "alice", "ydb.generic.use")
	attached := l.attach(1, "alice")
	roster := coordination.Roster{Node: attached.Node, Session: attached.Session, Epoch: attached.Epoch,
		Rights: attached.Rights, Path: "/local/node", Caller: enforced("alice"), TimeoutMillis: 1000}
	l.leader = coordination.NewLeader(l.machine, 2, 0)
	l.leader.Resume(0, 1, &roster)
	if messages := l.run(); len(messages) != 1 || messages[0].Kind != coordination.MessageResumed {
		t.Errorf("with the right still there: got %v", messages)
	}
	l.permit(scheme.Revoke, "alice", "ydb.generic.use")
	l.leader = coordination.NewLeader(l.machine, 3, 0)
	l.leader.Resume(0, 1, &roster)
	if messages := l.run(); len(messages) != 1 || messages[0].Refusal != coordination.NoAccess {
		t.Errorf("got %v", messages)
	}
}
