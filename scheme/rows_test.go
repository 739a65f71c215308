package scheme

import (
	"slices"
	"strings"
	"testing"
)

// showChanges writes changes as "id:name" and "-id".
func showChanges(changes []Change) string {
	var parts []string
	for _, c := range changes {
		sign := c.Entry.Name
		if c.Removed {
			sign = "removed"
		}
		parts = append(parts, string(rune('0'+c.ID))+":"+sign)
	}
	return strings.Join(parts, " ")
}

func TestTakeChanged(t *testing.T) {
	tree := newTree(t, "/Root/db", DefaultLimits())
	expectChanges := func(want string) {
		t.Helper()
		if got := showChanges(tree.TakeChanged()); got != want {
			t.Errorf("changed rows: %q, want %q", got, want)
		}
	}
	expectChanges("1:Root 2:db")
	expectChanges("")

	// Several changes to one entry are one row; order is by id, not by time.
	tree.createNode(SplitLoose("/Root/db/a/n"), NewNode{ID: 1})
	tree.modifyPermissions(SplitLoose("/Root/db/a/n"), actions(Action{Grant, "u", []string{read}}))
	tree.modifyPermissions(SplitLoose("/Root"), actions(Action{Grant, "u", []string{read}}))
	expectChanges("1:Root 3:a 4:n")

	// Removed, and removed before anybody saw it.
	tree.dropNode(SplitLoose("/Root/db/a/n"))
	tree.makeDirectory(SplitLoose("/Root/db/b/c"), "", Stamp{})
	tree.removeDirectory(SplitLoose("/Root/db/b/c"))
	expectChanges("4:b 5:removed")

	// The id of the newest entry comes back with the next one.
	tree.removeDirectory(SplitLoose("/Root/db/b"))
	tree.makeDirectory(SplitLoose("/Root/db/d"), "", Stamp{})
	expectChanges("4:d")
	tree.removeDirectory(SplitLoose("/Root/db/a"))
	tree.makeDirectory(SplitLoose("/Root/db/e"), "", Stamp{})
	expectChanges("3:removed 5:e")
	check(t, tree)
}

func TestRestore(t *testing.T) {
	tree := sampleTree(t)
	tree.modifyPermissions(SplitLoose("/local/n"), actions(Action{Grant, "u", []string{read}}))
	rows := slices.Collect(tree.All())
	for name, given := range map[string][]Entry{"in order": rows, "reversed": reversed(rows)} {
		again := newTree(t, "/local", DefaultLimits())
		if err := again.Restore(given); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check(t, again)
		if got := slices.Collect(again.All()); !slices.EqualFunc(got, rows, sameEntry) {
			t.Errorf("%s: rows are\n%v\nwant\n%v", name, got, rows)
		}
		if got, want := dump(again), dump(tree); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
		if changes := again.TakeChanged(); len(changes) != 0 {
			t.Errorf("%s: changed rows: %v", name, changes)
		}
	}
}

func reversed(entries []Entry) []Entry {
	entries = slices.Clone(entries)
	slices.Reverse(entries)
	return entries
}

// The caller's rows and the tree's do not share memory after Restore.
func TestRestoreCopies(t *testing.T) {
	tree := newTree(t, "/local", DefaultLimits())
	rows := slices.Collect(tree.All())
	names := []string{read}
	rows[0].Permissions = []Permission{{"u", names}}
	if err := tree.Restore(rows); err != nil {
		t.Fatal(err)
	}
	names[0], rows[0].Permissions[0].Subject = "changed", "changed"
	if got, want := permissionsOf(t, tree, "/local"), "u:generic.read"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Limits may be lower than when the rows were written: what is there stays, nothing is added.
func TestRestoreUnderLowerLimits(t *testing.T) {
	rows := slices.Collect(sampleTree(t).All())
	limits := DefaultLimits()
	limits.Paths, limits.Depth, limits.NameBytes = 1, 2, 5
	tree := newTree(t, "/local", limits)
	if err := tree.Restore(rows); err != nil {
		t.Fatal(err)
	}
	expect(t, failed("PRECONDITION_FAILED", "/local/x",
		"paths count limit exceeded, limit: 1, paths: 3, delta: 1"),
		tree.makeDirectory(SplitLoose("/local/x"), "", Stamp{}))
}

// Every kind of damage is found, and leaves the tree as it was.
func TestRestoreRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(rows []Entry) []Entry
		want   string
	}{
		"nothing": {func([]Entry) []Entry { return nil }, "scheme: 0 entries at the top, want 1"},
		"second top entry": {func(r []Entry) []Entry { r[3].Parent = 0; return r },
			"scheme: 2 entries at the top, want 1"},
		"zero id": {func(r []Entry) []Entry { r[2].ID = 0; return r },
			"scheme: row id 0 is zero or appears twice"},
		"same id": {func(r []Entry) []Entry { r[3].ID = 3; return r },
			"scheme: row id 3 is zero or appears twice"},
		"unknown parent": {func(r []Entry) []Entry { r[3].Parent = 9; return r },
			`scheme: row 4 ("m") names parent 9, which is not before it`},
		"parent behind it": {func(r []Entry) []Entry { r[1].Parent = 4; return r },
			`scheme: row 2 ("d") names parent 4, which is not before it`},
		"same path": {func(r []Entry) []Entry { r[2].Name = "d"; return r },
			"scheme: rows 2 and 3 have the same path"},
		"other database": {func(r []Entry) []Entry { r[0].Name = "other"; return r },
			`scheme: root entry 1 is 1 "other", database below 0; want "local", database`},
		"database as a dir": {func(r []Entry) []Entry { r[0].Kind = Directory; return r },
			`scheme: root entry 1 is 1 "local", directory below 0; want "local", database`},
		"database with id 9": {func(r []Entry) []Entry { r[0].ID = 9; return r[:1] },
			`scheme: root entry 1 is 9 "local", database below 0; want "local", database`},
		"empty name": {func(r []Entry) []Entry { r[3].Name = ""; return r },
			`scheme: entry 4 (""): bad name`},
		"slash in a name": {func(r []Entry) []Entry { r[3].Name = "a/b"; return r },
			`scheme: entry 4 ("a/b"): bad name`},
		"unknown kind": {func(r []Entry) []Entry { r[1].Kind = 2; return r },
			`scheme: entry 2 ("d"): bad kind: kind 2`},
		"second database": {func(r []Entry) []Entry { r[1].Kind = Database; return r },
			`scheme: entry 2 ("d"): bad kind: database`},
		"node without id": {func(r []Entry) []Entry { r[2].Node = 0; return r },
			`scheme: entry 3 ("n"): coordination node with node id 0`},
		"directory with id": {func(r []Entry) []Entry { r[1].Node = 8; return r },
			`scheme: entry 2 ("d"): directory with node id 8`},
		"below a node": {func(r []Entry) []Entry { r[3].Parent = 3; return r },
			`scheme: entry 3 ("n"): coordination node with children`},
		"same node id": {func(r []Entry) []Entry { r[3].Node = 1; return r },
			"scheme: two entries have node id 1"},
		"subject twice": {func(r []Entry) []Entry {
			r[1].Permissions = []Permission{{"u", []string{read}}, {"u", []string{list}}}
			return r
		}, `scheme: entry 2 ("d"): subject "u" appears twice`},
		"subject without permissions": {func(r []Entry) []Entry {
			r[1].Permissions = []Permission{{"u", nil}}
			return r
		}, `scheme: entry 2 ("d"): subject "u" has no permission`},
		"unknown permission": {func(r []Entry) []Entry {
			r[1].Permissions = []Permission{{"u", []string{"x"}}}
			return r
		}, `scheme: entry 2 ("d"): subject "u": permission "x" is unknown or appears twice`},
		"permission twice": {func(r []Entry) []Entry {
			r[1].Permissions = []Permission{{"u", []string{read, read}}}
			return r
		}, `scheme: entry 2 ("d"): subject "u": permission "ydb.generic.read" is unknown or appears twice`},
		"deprecated spelling": {func(r []Entry) []Entry {
			r[1].Permissions = []Permission{{"u", []string{"ydb.deprecated.select_row"}}}
			return r
		},
			`scheme: entry 2 ("d"): subject "u": permission "ydb.deprecated.select_row" is unknown or appears twice`},
	} {
		t.Run(name, func(t *testing.T) {
			tree := sampleTree(t)
			before := dump(tree)
			err := tree.Restore(c.damage(slices.Collect(tree.All())))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if got := dump(tree); got != before {
				t.Errorf("the tree changed to\n%s", got)
			}
			check(t, tree)
		})
	}
}

// The database path has two components, the rows only the first.
func TestRestoreMissingDatabase(t *testing.T) {
	tree := newTree(t, "/Root/db", DefaultLimits())
	rows := slices.Collect(tree.All())
	if err := tree.Restore(rows[:1]); err == nil || err.Error() != `scheme: no root entry 2 ("db")` {
		t.Errorf("got %v", err)
	}
}

// Damage that no rows can cause, only a mistake in this package.
func TestCheckFindsBrokenLinks(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*Tree)
		want   string
	}{
		"not at its place": {func(tree *Tree) { tree.get(2).entry.Name = "z" },
			`scheme: entry 2 ("z"): not where its parent looks for it`},
		"removed from the index only": {func(tree *Tree) { tree.byID = tree.byID[:3] },
			"scheme: 3 entries, but 4 are somebody's children"},
		"parent removed": {func(tree *Tree) {
			tree.byID = slices.Delete(tree.byID, 1, 2)
		}, `scheme: entry 4 ("m"): parent 2 is not in the tree`},
		"wrong parent id": {func(tree *Tree) { tree.get(4).entry.Parent = 1 },
			`scheme: entry 4 ("m"): bad parent 1`},
		"index out of order": {func(tree *Tree) { tree.byID[2], tree.byID[3] = tree.byID[3], tree.byID[2] },
			"scheme: entries 4 and 3 are out of order"},
		"changed out of order": {func(tree *Tree) { tree.changed = []EntryID{2, 2} },
			"scheme: changed ids 2 and 2 are out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := sampleTree(t)
			c.damage(tree)
			if err := tree.Check(); err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAllStopsEarly(t *testing.T) {
	tree := sampleTree(t)
	for entry := range tree.All() {
		if entry.ID != 1 {
			t.Fatalf("read on to entry %d", entry.ID)
		}
		break
	}
}
