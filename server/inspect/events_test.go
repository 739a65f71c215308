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

// TestRepeatedQuestions shows which answers are kept: those of the present version of the history, within their bound.
func TestRepeatedQuestions(t *testing.T) {
	var kept repeats
	find := func(version uint64, r *adminpb.EventsRequest) int {
		found := &adminpb.EventsResponse{}
		if !kept.find(version, keyOf(r), found) {
			return -1
		}
		found.Events = append(found.Events, nil) // the caller's answer is its own
		return len(found.GetEvents()) - 1
	}
	of := func(limit uint32) *adminpb.EventsRequest {
		return &adminpb.EventsRequest{Path: "/local/a", Limit: limit}
	}
	two := &adminpb.EventsResponse{Events: []*adminpb.Event{{Index: 1}, {Index: 2}}}
	kept.keep(1, keyOf(of(1)), two)
	kept.keep(1, keyOf(&adminpb.EventsRequest{WithinMillis: 1000}), two) // of another time when it is repeated
	for _, c := range []struct {
		version uint64
		request *adminpb.EventsRequest
		want    int
	}{{1, of(1), 2}, {1, of(1), 2}, {1, of(2), -1}, {2, of(1), -1},
		{1, &adminpb.EventsRequest{WithinMillis: 1000}, -1}} {
		if found := find(c.version, c.request); found != c.want {
			t.Errorf("version %d of %v has %d events, want %d", c.version, c.request, found, c.want)
		}
	}
	kept.keep(2, keyOf(of(1)), &adminpb.EventsResponse{})
	kept.keep(1, keyOf(of(1)), two) // was read before
	if found := find(2, of(1)); found != 0 {
		t.Errorf("the newer answer has %d events", found)
	}
	large := &adminpb.EventsResponse{Unknown: []string{string(make([]byte, maxRepeatBytes/2))}}
	for limit := range uint32(2 * maxRepeats) {
		if kept.keep(2, keyOf(of(limit)), large); find(2, of(limit)) != 0 || len(kept.answers) > maxRepeats {
			t.Errorf("%d answers are kept", len(kept.answers))
		}
	}
	large.Unknown = append(large.Unknown, large.GetUnknown()...)
	if kept.keep(3, keyOf(of(1)), large); find(3, of(1)) != -1 {
		t.Error("an answer that is too large is kept")
	}
}
