package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/adminpb"
)

// TestConsoleUpdatesData replaces data that still has the version that was seen, for a reason, which is in the log with
// the key that the page has come by. Nothing is replaced otherwise.
func TestConsoleUpdatesData(t *testing.T) {
	var log logText
	s, conn := startTest(t, func(config *Config) {
		withConsole(config)
		config.Logger = log.logger()
	})
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: "settings", Limit: 1,
			Data: []byte("0123456789")}}})
	next(t, stream)
	send(t, stream, acquire(2, "lock", nil)) // an ephemeral one
	next(t, stream)
	b := signedIn(t, s)
	see := func() *adminpb.VersionsResponse {
		t.Helper()
		got := &adminpb.VersionsResponse{}
		b.call(adminpb.Inspect_Versions_FullMethodName,
			&adminpb.VersionsRequest{Path: testNode, Name: []byte("settings"), DataBytes: 4}, got)
		return got
	}
	seen := see()
	if p := seen.GetPresent(); string(p.GetData()) != "0123" || p.GetDataBytes() != 10 || !seen.GetMayUpdate() {
		t.Errorf("got %v", seen)
	}
	update := "/api" + adminpb.Inspect_UpdateData_FullMethodName
	body := func(data, reason string, expected uint64) string {
		return fmt.Sprintf(`{"path":%q,"name":%q,"data":%q,"expected":"%d","reason":%q}`, testNode,
			base64.StdEncoding.EncodeToString([]byte("settings")), base64.StdEncoding.EncodeToString([]byte(data)),
			expected, reason)
	}
	version := seen.GetPresent().GetVersion()
	b.want(update, body("new", " ", version), http.StatusBadRequest, "reason: want a text")
	b.want(update, body("new", "OPS-1", version), http.StatusOK, "{}")
	b.want(update, body("late", "OPS-2", version), http.StatusConflict, "Aborted")
	b.want(update, body("newer", "OPS-3", see().GetPresent().GetVersion()), http.StatusOK, "{}")
	if got := see().GetPresent(); string(got.GetData()) != "newe" {
		t.Errorf("got %v", got)
	}
	text := log.String()
	for _, want := range []string{`because of \"OPS-1\"`, `because of \"OPS-3\"`, `user="(console key)"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not have %s:\n%s", want, text)
		}
	}
	page := &adminpb.Page{}
	b.call(adminpb.Inspect_List_FullMethodName, &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES,
		Filter: adminpb.PageRequest_PERSISTENT}, page)
	if len(page.GetSemaphores()) != 1 || string(page.GetSemaphores()[0].GetName()) != "settings" {
		t.Errorf("persistent: %v", page)
	}
}

// TestChildrenAndRights shows paths to callers who may describe them, and to nobody else that there are such.
func TestChildrenAndRights(t *testing.T) {
	g := startGuarded(t, nil)
	for i := range 300 {
		g.createNode("token-of-root", fmt.Sprintf("/local/team/node-%03d", i))
	}
	g.createNode("token-of-root", "/local/team/sub/inner")
	g.permit("/local/team", granting("alice", "ydb.generic.read"))
	g.permit("/local/team/node-007", granting("bob", "ydb.granular.erase_row"))
	inspect := adminpb.NewInspectClient(g.conn)
	children := func(who, path, after string) *adminpb.ChildrenResponse {
		t.Helper()
		got, err := inspect.Children(g.as("token-of-"+who), &adminpb.ChildrenRequest{Path: path, After: after})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := children("alice", "/local/team", "")
	if len(first.GetChildren()) != 256 || !first.GetMore() || !first.GetChildren()[7].GetNode() {
		t.Errorf("%d children", len(first.GetChildren()))
	}
	rest := children("alice", "/local/team", first.GetChildren()[255].GetName())
	if last := rest.GetChildren()[len(rest.GetChildren())-1]; len(rest.GetChildren()) != 45 || rest.GetMore() ||
		last.GetName() != "sub" || last.GetNode() {
		t.Errorf("then %v", rest)
	}
	if all := children("root", "", ""); all.GetPath() != "/local" || len(all.GetChildren()) != 2 {
		t.Errorf("the database has %v", all)
	}
	for _, c := range []struct{ who, path string }{{"alice", ""}, {"alice", "/local/nothing"}, {"bob", "/local/team"},
		{"bob", "/local/team/node-007"}} {
		_, err := inspect.Children(g.as("token-of-"+c.who), &adminpb.ChildrenRequest{Path: c.path})
		_, other := inspect.Rights(g.as("token-of-"+c.who), &adminpb.RightsRequest{Path: c.path})
		if status.Code(err) != codes.NotFound || status.Code(other) != codes.NotFound {
			t.Errorf("%s sees %q: %v, %v", c.who, c.path, err, other)
		}
	}
	rights, err := inspect.Rights(g.as("token-of-alice"), &adminpb.RightsRequest{Path: "/local/team/node-007"})
	if err != nil {
		t.Fatal(err)
	}
	if len(rights.GetAdministrators()) != 0 || len(rights.GetOwn()) != 3 || rights.GetUnenforced() ||
		rights.GetLevels()[1].GetPath() != "/local/team" || len(rights.GetLevels()) != 3 {
		t.Errorf("alice sees %v", rights)
	}
	given := make(map[string]string)
	for _, s := range rights.GetSubjects() {
		for _, p := range s.GetGiven() {
			where := rights.GetLevels()[p.GetLevel()].GetPath()
			given[s.GetSubject()] += fmt.Sprintf("%s at %s; ", p.GetPermission(), where)
		}
	}
	if rights.GetSubjects()[0].GetSubject() != "root" || !rights.GetSubjects()[0].GetOwns() ||
		given["bob"] != "ydb.granular.erase_row at /local/team/node-007; " ||
		given["alice"] != "ydb.generic.read at /local/team; " {
		t.Errorf("given: %v of %v", given, rights.GetSubjects())
	}
	rights, err = inspect.Rights(g.as("token-of-root"), &adminpb.RightsRequest{})
	if err != nil || len(rights.GetAdministrators()) != 1 || len(rights.GetOwn()) != 15 {
		t.Errorf("root sees %v, %v", rights, err)
	}
}
