package scheme

import (
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme/outcome"
)

// guarded is /local with a/b/node in it, all made by "maker".
func guarded(t *testing.T) *Tree {
	t.Helper()
	tree, err := New("/local")
	if err != nil {
		t.Fatal(err)
	}
	if _, answer := tree.createNode(SplitLoose("/local/a/b/node"),
		NewNode{ID: 1, Owner: "maker"}); !answer.OK() {
		t.Fatal(answer)
	}
	return tree
}

func permit(t *testing.T, tree *Tree, path, subject string, names ...string) {
	t.Helper()
	change := PermissionsChange{Actions: []Action{{Kind: Grant, Subject: subject, Names: names}}}
	if answer := tree.modifyPermissions(SplitLoose(path), change); !answer.OK() {
		t.Fatal(answer)
	}
}

func rightsAt(t *testing.T, tree *Tree, path string, s Subject) Access {
	t.Helper()
	entry, found := tree.Lookup(SplitLoose(path))
	if !found {
		t.Fatalf("%s is not there", path)
	}
	return tree.Rights(entry, s)
}

func TestEveryPermissionAllowsSomething(t *testing.T) {
	for _, name := range permissionNames {
		if namedAccess[name] == 0 {
			t.Errorf("%s allows nothing", name)
		}
	}
	if len(namedAccess) != len(permissionNames) {
		t.Errorf("%d permissions have rights, %d names are known", len(namedAccess), len(permissionNames))
	}
	if genericFull != FullAccess {
		t.Errorf("ydb.generic.full is %b, all rights are %b", genericFull, FullAccess)
	}
	if accessOf([]string{"ydb.deprecated.select_row"}) != SelectRow || accessOf([]string{"nonsense"}) != 0 {
		t.Error("an older name counts as the newer one, an unknown name as nothing")
	}
}

func TestRightsByDefault(t *testing.T) {
	tree := guarded(t)
	const path = "/local/a/b/node"
	for name, test := range map[string]struct {
		subject Subject
		want    Access
	}{
		"nobody":             {Subject{}, 0},
		"a stranger":         {Subject{Name: "eve"}, 0},
		"the owner":          {Subject{Name: "maker"}, FullAccess},
		"somebody exempt":    {Subject{Name: "eve", Exempt: true}, FullAccess},
		"nobody, but exempt": {Subject{Exempt: true}, FullAccess},
	} {
		if got := rightsAt(t, tree, path, test.subject); got != test.want {
			t.Errorf("%s: got %b, want %b", name, got, test.want)
		}
	}
	if got := rightsAt(t, tree, "/local", Subject{Name: "maker"}); got != 0 {
		t.Errorf("the owner of what is below has %b on the database", got)
	}
}

func TestNobodyOwnsNothing(t *testing.T) {
	tree := guarded(t)
	permit(t, tree, "/local", "", "ydb.generic.full")
	if got := rightsAt(t, tree, "/local", Subject{}); got != 0 {
		t.Errorf("an anonymous caller has %b by a permission for the empty name", got)
	}
}

func TestRightsAreInherited(t *testing.T) {
	tree := guarded(t)
	alice := Subject{Name: "alice"}
	permit(t, tree, "/local", "alice", "ydb.generic.read", "ydb.database.connect")
	permit(t, tree, "/local/a", AllUsers, "ydb.granular.update_row")
	permit(t, tree, "/local/a/b/node", "alice", "ydb.tables.modify")
	for path, want := range map[string]Access{
		"/local":          genericRead | Connect,
		"/local/a":        genericRead | UpdateRow,
		"/local/a/b":      genericRead | UpdateRow,
		"/local/a/b/node": genericRead | UpdateRow | EraseRow,
	} {
		if got := rightsAt(t, tree, path, alice); got != want {
			t.Errorf("%s: got %b, want %b", path, got, want)
		}
	}
	if got := rightsAt(t, tree, "/local/a/b/node", Subject{}); got != 0 {
		t.Errorf("the group of all users covers anonymous callers: %b", got)
	}
	interrupt := true
	if answer := tree.modifyPermissions(SplitLoose("/local/a/b"),
		PermissionsChange{Interrupt: &interrupt}); !answer.OK() {
		t.Fatal(answer)
	}
	if got := rightsAt(t, tree, "/local/a/b/node", alice); got != UpdateRow|EraseRow {
		t.Errorf("behind the interruption: got %b", got)
	}
}

// The rights are those that EffectivePermissions shows.
func TestRightsAgreeWithEffectivePermissions(t *testing.T) {
	tree := guarded(t)
	permit(t, tree, "/local", "alice", "ydb.generic.use", "ydb.database.connect")
	permit(t, tree, "/local/a", "bob", "ydb.database.connect", "ydb.generic.list")
	permit(t, tree, "/local/a/b", "bob", "ydb.generic.manage")
	for entry := range tree.All() {
		for _, name := range []string{"alice", "bob"} {
			path, _ := tree.PathOf(entry.ID)
			lineage, _ := tree.EntryToDescribe(path)
			effective := lineage.EffectivePermissions()
			var want Access
			if at := indexSubject(effective, name); at >= 0 {
				want = accessOf(effective[at].Names)
			}
			if got := tree.Rights(entry, Subject{Name: name}); got != want ||
				lineage.Rights(Subject{Name: name}) != want {
				t.Errorf("%s at %q: got %b, effective permissions give %b", name, entry.Name, got, want)
			}
		}
	}
}

// The permissions that are given are those that count, and the rights that they come to have names.
func TestGivenPermissions(t *testing.T) {
	tree := guarded(t)
	path := SplitLoose("/local/a/b/node")
	for _, p := range [][]string{{"/local", "alice", "ydb.generic.read", "ydb.database.connect"},
		{"/local/a", AllUsers, "ydb.generic.use"}, {"/local/a/b/node", "alice", "ydb.granular.erase_row"}} {
		permit(t, tree, p[0], p[1], p[2:]...)
	}
	l, answer := tree.EntryToDescribe(path)
	if !answer.OK() {
		t.Fatal(answer)
	}
	access := make(map[string]Access)
	for _, given := range l.Given() {
		access[given.Subject] |= AccessOf(given.Name)
		if level := l[given.Level]; !slices.ContainsFunc(level.Permissions, func(p Permission) bool {
			return p.Subject == given.Subject && slices.Contains(p.Names, given.Name)
		}) {
			t.Errorf("%v was not given on %s", given, level.Name)
		}
	}
	for _, p := range l.EffectivePermissions() {
		if access[p.Subject] != accessOf(p.Names) {
			t.Errorf("%s: %v, want %v", p.Subject, access[p.Subject].Names(), p.Names)
		}
	}
	names := FullAccess.Names()
	if len(names) != 15 || FullAccess != accessOf(names) {
		t.Errorf("%v", names)
	}
	for i, name := range names {
		if AccessOf(name) != 1<<i {
			t.Errorf("%s does not allow right %d alone", name, i)
		}
	}
}

func TestAuthorize(t *testing.T) {
	tree := guarded(t)
	permit(t, tree, "/local", "alice", "ydb.generic.list")
	path := SplitLoose("/local/a/b/node")
	if answer := tree.Authorize(path, DescribeSchema, Subject{Name: "alice"}); !answer.OK() {
		t.Errorf("got %s", answer)
	}
	answer := tree.Authorize(path, DescribeSchema|AlterSchema, Subject{Name: "alice"})
	if answer.Status != outcome.Unauthorized || answer.Issues[0].Code != outcome.CodeAccessDenied ||
		answer.Issues[0].Message != "Access denied for alice on path /local/a/b/node" {
		t.Errorf("got %s", answer)
	}
	if answer := tree.Authorize(path, DescribeSchema, Subject{}); !strings.Contains(answer.String(),
		"anonymous") {
		t.Errorf("got %s", answer)
	}
	if answer := tree.Authorize(SplitLoose("/local/missing"), AlterSchema, Subject{}); !answer.OK() {
		t.Errorf("a missing path is the operation's to tell: %s", answer)
	}
}

func TestAuthorizeCreation(t *testing.T) {
	tree := guarded(t)
	permit(t, tree, "/local/a", "alice", "ydb.granular.create_table")
	for path, want := range map[string]outcome.Status{
		"/local/a/n":       outcome.Success,
		"/local/a/b/new/n": outcome.Success,
		"/local/a/b/node":  outcome.Success, // it exists: the rights of its parent count
		"/local/a":         outcome.Unauthorized,
		"/local/x/y/z":     outcome.Unauthorized,
		"/elsewhere/x":     outcome.Success, // has no place in the tree, which CreateNode says
		"/":                outcome.Success,
	} {
		if answer := tree.AuthorizeCreation(SplitLoose(path), CreateTable,
			Subject{Name: "alice"}); answer.Status != want {
			t.Errorf("%s: got %s, want %s", path, answer, want)
		}
	}
	answer := tree.AuthorizeCreation(SplitLoose("/local/x/y/z"), CreateTable, Subject{Name: "alice"})
	if want := "Access denied for alice on path /local"; answer.Issues[0].Message != want {
		t.Errorf("got %s, want %q", answer, want)
	}
}

// A subject that may grant cannot give or take more than its own rights.
func TestAuthorizePermissions(t *testing.T) {
	tree := guarded(t)
	const path = "/local/a"
	permit(t, tree, path, "alice", "ydb.access.grant", "ydb.generic.read")
	permit(t, tree, path, "bob", "ydb.generic.write")
	yes := true
	for name, test := range map[string]struct {
		change PermissionsChange
		want   outcome.Status
	}{
		"nothing": {PermissionsChange{}, outcome.Success},
		"grants what she has": {PermissionsChange{Actions: []Action{{Kind: Grant, Subject: "x",
			Names: []string{"ydb.generic.list"}}}}, outcome.Success},
		"grants more": {PermissionsChange{Actions: []Action{{Kind: Grant, Subject: "alice",
			Names: []string{"ydb.generic.write"}}}}, outcome.Unauthorized},
		"revokes what she has": {PermissionsChange{Actions: []Action{{Kind: Revoke, Subject: "bob",
			Names: []string{"ydb.tables.read"}}}}, outcome.Success},
		"revokes more": {PermissionsChange{Actions: []Action{{Kind: Revoke, Subject: "bob",
			Names: []string{"ydb.generic.write"}}}}, outcome.Unauthorized},
		"sets a newcomer's": {PermissionsChange{Actions: []Action{{Kind: Set, Subject: "x",
			Names: []string{"ydb.generic.list"}}}}, outcome.Success},
		"sets away what bob has": {PermissionsChange{Actions: []Action{{Kind: Set, Subject: "bob"}}},
			outcome.Unauthorized},
		"changes the owner": {PermissionsChange{Actions: []Action{{Kind: ChangeOwner, Subject: "alice"}}},
			outcome.Unauthorized},
		"clears":     {PermissionsChange{Clear: true}, outcome.Unauthorized},
		"interrupts": {PermissionsChange{Interrupt: &yes}, outcome.Unauthorized},
		"makes a mistake": {PermissionsChange{Actions: []Action{{Kind: Grant, Names: []string{"x"}},
			{Kind: ChangeOwner}}}, outcome.Success},
	} {
		if answer := tree.AuthorizePermissions(SplitLoose(path), test.change,
			Subject{Name: "alice"}); answer.Status != test.want {
			t.Errorf("%s: got %s, want %s", name, answer, test.want)
		}
		if answer := tree.AuthorizePermissions(SplitLoose(path), test.change,
			Subject{Name: "maker"}); !answer.OK() {
			t.Errorf("%s, by the owner: got %s", name, answer)
		}
		if answer := tree.AuthorizePermissions(SplitLoose(path), test.change,
			Subject{Name: "bob"}); answer.OK() != (name == "makes a mistake") {
			t.Errorf("%s, by one who may not grant: got %s", name, answer)
		}
	}
}

func TestPermissionNamesAreSorted(t *testing.T) {
	if !slices.IsSorted(permissionNames) {
		t.Error("permissionNames is searched as a sorted list")
	}
}
