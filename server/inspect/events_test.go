package inspect

import (
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/adminpb"
)

// TestUserIsShown: docs/operations.md: "Addresses, users and reasons are for administrators and for the client's
// own user". bob, who may read rows, sees who killed a session, who changed data, and who deleted a semaphore.
func TestUserIsShown(t *testing.T) {
	for _, kind := range []adminpb.Event_Kind{adminpb.Event_SESSION_ENDED, adminpb.Event_DATA_CHANGED,
		adminpb.Event_SEMAPHORE_DELETED} {
		e := &adminpb.Event{Kind: kind, Node: 1, User: "root"}
		if redact(e, "bob", false); e.GetUser() != "" {
			t.Errorf("bob sees that %v was by %q", kind, e.GetUser())
		}
	}
}

// TestSumsOfATenantAreHis: a sum of many nodes has no node whose rights count, but a directory. A caller that may
// read there sees it; that of all tenants is for those that may read everything.
func TestSumsOfATenantAreHis(t *testing.T) {
	m, err := coordination.NewMachine("/local", coordination.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []coordination.Command{
		&coordination.MakeDirectory{Path: scheme.Path{"local", "alice"}},
		&coordination.MakeDirectory{Path: scheme.Path{"local", "bob"}},
		&coordination.ModifyPermissions{Path: scheme.Path{"local", "alice"}, Change: scheme.PermissionsChange{
			Actions: []scheme.Action{{Kind: scheme.Grant, Subject: "alice",
				Names: []string{"ydb.granular.select_row"}}}}},
	} {
		m.Apply(coordination.Index(i+1), 1, c)
	}
	alice := &eyes{caller: coordination.Caller{Subject: "alice", Enforced: true}}
	for path, want := range map[string]bool{"/local/alice": true, "/local/bob": false, "/local": false, "/gone": false,
		"": false} {
		sum := &adminpb.Event{Kind: adminpb.Event_SESSION_EXPIRED, SumsKind: true, Path: path}
		if alice.mayRead(m, placeOfEvent(sum)) != want {
			t.Errorf("alice sees the sum of %q: %v", path, !want)
		}
	}
}

// TestLaggingServersForget: a server that lags may still have what the history of a node is not to keep any more.
func TestLaggingServersForget(t *testing.T) {
	for history, want := range map[adminpb.History]string{adminpb.History_DATA: "secret", adminpb.History_META: "",
		adminpb.History_NONE: ""} {
		list := permitted(history, []*adminpb.Version{{Version: 1, Data: []byte("secret")}})
		if len(list) == 0 != (history == adminpb.History_NONE) || len(list) > 0 && string(list[0].GetData()) != want {
			t.Errorf("%v keeps %v", history, list)
		}
	}
}
