package scheme

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func sameEntry(a, b Entry) bool { return reflect.DeepEqual(a, b) }

func permissionsOf(t *testing.T, tree *Tree, path string) string {
	t.Helper()
	entry, found := tree.Lookup(SplitLoose(path))
	if !found {
		t.Fatalf("no %s", path)
	}
	return showPermissions(entry.Permissions)
}

// showPermissions writes permissions as "subject:name,name subject:name", without the common prefix of the
// names.
func showPermissions(permissions []Permission) string {
	var parts []string
	for _, p := range permissions {
		parts = append(parts, p.Subject+":"+strings.ReplaceAll(strings.Join(p.Names, ","), "ydb.", ""))
	}
	return strings.Join(parts, " ")
}

func actions(list ...Action) PermissionsChange { return PermissionsChange{Actions: list} }

const (
	read  = "ydb.generic.read"
	write = "ydb.generic.write"
	list  = "ydb.generic.list"
)

// The steps build on each other.
func TestModifyPermissions(t *testing.T) {
	tree := sampleTree(t)
	yes, no := true, false
	for i, step := range []struct {
		change    PermissionsChange
		want      string
		owner     string
		interrupt bool
		changed   bool
	}{
		{PermissionsChange{}, "", "bob", false, false},
		{actions(Action{Grant, "u", []string{write, read, write}}), "u:generic.write,generic.read", "bob",
			false, true},
		{actions(Action{Grant, "u", []string{read}}), "u:generic.write,generic.read", "bob",
			false, false},
		{actions(Action{Grant, "a", []string{list}}), "u:generic.write,generic.read a:generic.list", "bob",
			false, true},
		{actions(Action{Grant, "u", []string{list}}),
			"u:generic.write,generic.read,generic.list a:generic.list", "bob", false, true},
		{actions(Action{Revoke, "u", []string{write, "ydb.tables.read"}}),
			"u:generic.read,generic.list a:generic.list", "bob", false, true},
		{actions(Action{Revoke, "u", []string{write}}, Action{Revoke, "nobody", []string{read}}),
			"u:generic.read,generic.list a:generic.list", "bob", false, false},
		{actions(Action{Set, "a", []string{read}}), "u:generic.read,generic.list a:generic.read", "bob",
			false, true},
		{actions(Action{Set, "u", nil}), "a:generic.read", "bob", false, true},
		{actions(Action{Grant, "w", nil}), "a:generic.read", "bob", false, false},
		{actions(Action{ChangeOwner, "cid", nil}, Action{Kind: ChangeOwner}), "a:generic.read", "cid", false,
			true},
		{PermissionsChange{Interrupt: &yes}, "a:generic.read", "cid", true, true},
		{PermissionsChange{Interrupt: &yes}, "a:generic.read", "cid", true, false},
		{PermissionsChange{Clear: true, Interrupt: &no, Actions: []Action{{Grant, "z", []string{read}}}},
			"z:generic.read", "cid", false, true},
		{actions(Action{Grant, "z", []string{"ydb.deprecated.select_row"}}),
			"z:generic.read,granular.select_row", "cid", false, true},
		{actions(Action{Revoke, "z", []string{"ydb.deprecated.select_row", read}}), "", "cid", false, true},
		{PermissionsChange{Clear: true}, "", "cid", false, false},
	} {
		tree.TakeChanged()
		expect(t, "SUCCESS", tree.modifyPermissions(SplitLoose("/local/n"), step.change))
		check(t, tree)
		entry, _ := tree.Lookup(SplitLoose("/local/n"))
		if got := showPermissions(entry.Permissions); got != step.want || entry.Owner != step.owner ||
			entry.InterruptInheritance != step.interrupt {
			t.Errorf("step %d: %q, owner %s, interrupt %t; want %q, %s, %t", i, got, entry.Owner,
				entry.InterruptInheritance, step.want, step.owner, step.interrupt)
		}
		if changed := len(tree.TakeChanged()) > 0; changed != step.changed {
			t.Errorf("step %d: row changed: %t", i, changed)
		}
	}
}

// What was given away earlier does not change under its reader, whichever action comes next.
func TestPermissionsAreNotChangedInPlace(t *testing.T) {
	next := []Action{
		{Grant, "a", []string{write}},
		{Grant, "c", []string{write}},
		{Revoke, "a", []string{read}},
		{Revoke, "a", []string{list, read}},
		{Revoke, "b", []string{read}},
		{Set, "a", []string{write}},
		{Set, "a", nil},
	}
	for _, first := range next {
		for _, second := range next {
			tree := sampleTree(t)
			path := SplitLoose("/local/n")
			tree.modifyPermissions(path, actions(Action{Grant, "a", []string{read, list}},
				Action{Grant, "b", []string{read}}))
			var given [2]Entry
			var seen [2]string
			for i, action := range []Action{first, second} {
				given[i], _ = tree.Lookup(path)
				seen[i] = showPermissions(given[i].Permissions)
				expect(t, "SUCCESS", tree.modifyPermissions(path, actions(action)))
			}
			for i := range given {
				if got := showPermissions(given[i].Permissions); got != seen[i] {
					t.Errorf("%v, %v: what was %q is now %q", first, second, seen[i], got)
				}
			}
		}
	}
}

// Two changes of one list do not share what lies behind its end.
func TestChangesDoNotShareCapacity(t *testing.T) {
	names := append(make([]string, 0, 9), read)
	base := append(make([]Permission, 0, 9), Permission{"a", names})
	granted := func(subject, name string) []Permission {
		l := newPermissionList(base)
		l.grant(subject, []string{name})
		return l.permissions()
	}
	one, two := granted("x", read), granted("y", read)
	three, four := granted("a", write), granted("a", list)
	for want, got := range map[string][]Permission{
		"a:generic.read x:generic.read": one,
		"a:generic.read y:generic.read": two,
		"a:generic.read,generic.write":  three,
		"a:generic.read,generic.list":   four,
		"a:generic.read":                base,
	} {
		if showPermissions(got) != want {
			t.Errorf("got %q, want %q", showPermissions(got), want)
		}
	}
}

func TestModifyPermissionsRefuses(t *testing.T) {
	tree := sampleTree(t)
	before := slices.Collect(tree.All())
	for _, c := range []struct {
		path   string
		change PermissionsChange
		want   string
	}{
		{"/local/x", PermissionsChange{}, missing},
		{"/", PermissionsChange{}, missing},
		{"/local/n", actions(Action{}), "BAD_REQUEST [0/1] Unknown permission action"},
		{"/local/n", actions(Action{Kind: 5}), "BAD_REQUEST [0/1] Unknown permission action"},
		{"/local/x", actions(Action{}), "BAD_REQUEST [0/1] Unknown permission action"},
		{"/local/n", actions(Action{Grant, "u", []string{read}}, Action{Set, "u", []string{"read"}}),
			"BAD_REQUEST [0/1] Unknown permission name: read"},
		{"/local/n", actions(Action{Revoke, "u", []string{""}}, Action{}),
			"BAD_REQUEST [0/1] Unknown permission name: "},
		{"/local/n", actions(Action{Grant, "u", []string{"ydb.deprecated.full"}}),
			"BAD_REQUEST [0/1] Unknown permission name: ydb.deprecated.full"},
	} {
		expect(t, c.want, tree.modifyPermissions(SplitLoose(c.path), c.change))
	}
	if after := slices.Collect(tree.All()); !slices.EqualFunc(before, after, sameEntry) {
		t.Errorf("changed from %v to %v", before, after)
	}
}

// Every name of surface.md §4 is known, and those of ydb.granular also under their old spelling.
func TestPermissionNames(t *testing.T) {
	if !slices.IsSorted(permissionNames) {
		t.Error("permissionNames is not sorted")
	}
	for group, names := range map[string]string{
		"generic":  "list read write use use_legacy manage full full_legacy",
		"database": "connect create drop",
		"tables":   "read modify",
		"access":   "grant",
		"granular": "select_row update_row erase_row read_attributes write_attributes create_directory " +
			"create_table create_queue remove_schema describe_schema alter_schema",
		"deprecated": "select_row update_row erase_row read_attributes write_attributes create_directory " +
			"create_table create_queue remove_schema describe_schema alter_schema",
	} {
		for name := range strings.FieldsSeq(names) {
			full := "ydb." + group + "." + name
			want := strings.Replace(full, "deprecated", "granular", 1)
			if got, known := storedName(full); !known || got != want {
				t.Errorf("%s is kept as %q, known: %t", full, got, known)
			}
		}
	}
}

func TestACLLimit(t *testing.T) {
	limits := DefaultLimits()
	path := SplitLoose("/local")
	// The database's owner takes 12 bytes, one permission 12 and its subject.
	subject := strings.Repeat("s", limits.ACLBytes-len(RootOwner)-aceBytes)
	tree := newTree(t, "/local", limits)
	tooBig := failed("BAD_REQUEST", "/local", "ACL size limit exceeded, limit: 10240, new ACL size: 10241")
	expect(t, tooBig, tree.modifyPermissions(path, actions(Action{Grant, subject + "s", []string{read}})))
	if got := permissionsOf(t, tree, "/local"); got != "" {
		t.Errorf("refused, but stored: %d bytes", len(got))
	}
	expect(t, "SUCCESS", tree.modifyPermissions(path, actions(Action{Grant, subject, []string{read}})))
	database, _ := tree.Lookup(path)
	if got := ACLSize(database.Owner, database.Permissions); got != limits.ACLBytes {
		t.Errorf("size %d, want %d", got, limits.ACLBytes)
	}
	expect(t, tooBig, tree.modifyPermissions(path, actions(Action{ChangeOwner, RootOwner + "s", nil})))

	// Clear comes first, so it makes room; a later action of the same request does not.
	grown := Action{Grant, "t", []string{read}}
	expect(t, failed("BAD_REQUEST", "/local", "ACL size limit exceeded, limit: 10240, new ACL size: 10253"),
		tree.modifyPermissions(path, actions(grown, Action{Set, subject, nil})))
	expect(t, "SUCCESS", tree.modifyPermissions(path,
		PermissionsChange{Clear: true, Actions: []Action{grown}}))
	check(t, tree)
}

func TestActionsLimit(t *testing.T) {
	limits := DefaultLimits()
	limits.Actions = 2
	tree := newTree(t, "/local", limits)
	grants := []Action{{Grant, "a", []string{read}}, {Grant, "b", []string{read}},
		{Grant, "c", []string{read}}}
	expect(t, "BAD_REQUEST [0/1] Too many permission actions, limit: 2",
		tree.modifyPermissions(Path{"local"}, actions(grants...)))
	expect(t, "SUCCESS", tree.modifyPermissions(Path{"local"}, actions(grants[:2]...)))
}

func TestEffectivePermissions(t *testing.T) {
	tree := sampleTree(t)
	yes := true
	modify := func(path string, change PermissionsChange) {
		t.Helper()
		expect(t, "SUCCESS", tree.modifyPermissions(SplitLoose(path), change))
	}
	effective := func(path string) string {
		t.Helper()
		lineage, _ := tree.EntryToDescribe(SplitLoose(path))
		return showPermissions(lineage.EffectivePermissions())
	}
	want := func(wants ...string) {
		t.Helper()
		for i := 0; i < len(wants); i += 2 {
			if got := effective(wants[i]); got != wants[i+1] {
				t.Errorf("%s: got %q, want %q", wants[i], got, wants[i+1])
			}
		}
	}
	modify("/local", actions(Action{Grant, "all", []string{permissionConnect, list}},
		Action{Grant, "guest", []string{permissionConnect}}))
	modify("/local/d", actions(Action{Grant, "ops", []string{write}}))
	modify("/local/d/m", actions(Action{Grant, "all", []string{read, list}}))
	want("/local", "all:database.connect,generic.list guest:database.connect",
		"/local/n", "all:generic.list",
		"/local/d", "ops:generic.write all:generic.list",
		"/local/d/m", "all:generic.read,generic.list ops:generic.write",
		"/", "")

	// What is interrupted is not seen from below either.
	modify("/local/d", PermissionsChange{Interrupt: &yes})
	want("/local/d", "ops:generic.write",
		"/local/d/m", "all:generic.read,generic.list ops:generic.write",
		"/local/n", "all:generic.list")
	modify("/local/d/m", PermissionsChange{Clear: true})
	want("/local/d/m", "ops:generic.write")
	want("/local/missing", "")
	if got, want := permissionsOf(t, tree, "/local"),
		"all:database.connect,generic.list guest:database.connect"; got != want {
		t.Errorf("the database has %q, want %q", got, want)
	}
}

func ExampleTree_ModifyPermissions() {
	tree, _ := New("/local")
	answer := tree.modifyPermissions(Path{"local"}, PermissionsChange{
		Actions: []Action{{Kind: Grant, Subject: "ops@ad", Names: []string{"ydb.generic.read"}}},
	})
	database, _ := tree.Lookup(Path{"local"})
	fmt.Println(answer, database.Permissions)
	// Output: SUCCESS [{ops@ad [ydb.generic.read]}]
}
