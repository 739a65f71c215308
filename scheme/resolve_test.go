package scheme

import (
	"slices"
	"testing"
)

func TestLookup(t *testing.T) {
	tree := sampleTree(t)
	for path, want := range map[string]EntryID{"/": 0, "/local": 1, "/local/d": 2, "/local/n": 3,
		"/local/d/m": 4} {
		entry, found := tree.Lookup(SplitLoose(path))
		if !found || entry.ID != want {
			t.Errorf("%s: entry %d, %t; want %d", path, entry.ID, found, want)
		}
		if got, found := tree.PathOf(want); want != 0 && (!found || got.String() != path) {
			t.Errorf("entry %d: path %s, want %s", want, got, path)
		}
	}
	for _, path := range []string{"/x", "/local/x", "/local/d/x", "/local/n/x", "/local/d/m/x/y"} {
		if entry, found := tree.Lookup(SplitLoose(path)); found {
			t.Errorf("%s: found %+v", path, entry)
		}
	}
	for _, id := range []EntryID{0, 5} {
		if path, found := tree.PathOf(id); found {
			t.Errorf("entry %d: found %s", id, path)
		}
	}
	if root, _ := tree.Lookup(nil); root.Name != "/" || root.Kind != Directory {
		t.Errorf("the root is %+v", root)
	}
}

// Children come in bytewise order of their names, whatever the order of creation.
func TestChildrenSorted(t *testing.T) {
	tree := newTree(t, "/local", DefaultLimits())
	for _, name := range []string{"b", "a1", "B", "a", "~", "a-", "A"} {
		expect(t, "SUCCESS", tree.makeDirectory(Path{"local", name}, "", Stamp{}))
	}
	var names []string
	for _, child := range tree.Children(Path{"local"}) {
		names = append(names, child.Name)
	}
	if want := []string{"A", "B", "a", "a-", "a1", "b", "~"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	for _, path := range []string{"/local/a", "/local/none"} {
		if children := tree.Children(SplitLoose(path)); children != nil {
			t.Errorf("%s has children %v", path, children)
		}
	}
}

const missing = "SCHEME_ERROR [200200/1] Path does not exist"

func TestNodeToAlterAndDrop(t *testing.T) {
	tree := sampleTree(t)
	for path, want := range map[string]string{
		"/x":         missing,
		"/local/x":   missing,
		"/local/n/x": missing,
		"/local/d": failed("SCHEME_ERROR", "/local/d",
			"path is not a kesus (id: 2, type: EPathTypeDir, state: EPathStateNoChanges)"),
		"/local": failed("SCHEME_ERROR", "/local",
			"path is not a kesus (id: 1, type: EPathTypeSubDomain, state: EPathStateNoChanges)"),
		"/": failed("SCHEME_ERROR", "/",
			"path is not a kesus (id: 0, type: EPathTypeDir, state: EPathStateNoChanges)"),
		"/local/x/y/z": missing,
	} {
		entry, answer := tree.NodeToAlter(SplitLoose(path))
		expect(t, want, answer)
		id, answer := tree.dropNode(SplitLoose(path))
		expect(t, want, answer)
		if entry.ID != 0 || id != 0 {
			t.Errorf("%s: entry %d, node %d", path, entry.ID, id)
		}
	}
	entry, answer := tree.NodeToAlter(SplitLoose("/local/d/m"))
	expect(t, "SUCCESS", answer)
	if entry.Node != 2 {
		t.Errorf("node %d, want 2", entry.Node)
	}
	id, answer := tree.dropNode(SplitLoose("/local/d/m"))
	expect(t, "SUCCESS", answer)
	if id != 2 {
		t.Errorf("dropped node %d, want 2", id)
	}
	_, answer = tree.dropNode(SplitLoose("/local/d/m"))
	expect(t, missing, answer)
	check(t, tree)
}

func TestNodeToDescribe(t *testing.T) {
	tree := sampleTree(t)
	for _, path := range []string{"/", "/local", "/local/d", "/local/x", "/local/n/x"} {
		_, answer := tree.NodeToDescribe(SplitLoose(path))
		expect(t, "SCHEME_ERROR", answer)
		if answer.Issues != nil {
			t.Errorf("%s: issues %v", path, answer.Issues)
		}
	}
	lineage, answer := tree.NodeToDescribe(SplitLoose("/local/n"))
	expect(t, "SUCCESS", answer)
	want := Entry{ID: 3, Parent: 1, Name: "n", Kind: CoordinationNode, Node: 1, Owner: "bob",
		Created: Stamp{3, 4}}
	if !sameEntry(lineage[0], want) {
		t.Errorf("got %+v, want %+v", lineage[0], want)
	}
}

func TestEntryToDescribe(t *testing.T) {
	tree := sampleTree(t)
	_, answer := tree.EntryToDescribe(SplitLoose("/local/x"))
	expect(t, "SCHEME_ERROR [0/1] Path not found", answer)
	lineage, answer := tree.EntryToDescribe(SplitLoose("/local"))
	expect(t, "SUCCESS", answer)
	if lineage[0].Kind != Database {
		t.Errorf("kind %s", lineage[0].Kind)
	}
}

func TestRemoveDirectory(t *testing.T) {
	tree := newTree(t, "/Root/db", DefaultLimits())
	expect(t, "SUCCESS", tree.makeDirectory(SplitLoose("/Root/db/d/e"), "", Stamp{}))
	_, answer := tree.createNode(SplitLoose("/Root/db/d/n"), NewNode{ID: 1})
	expect(t, "SUCCESS", answer)
	for path, want := range map[string]string{
		"/":          failed("SCHEME_ERROR", "/", "path is root"),
		"/Root":      failed("SCHEME_ERROR", "/Root", "path is root"),
		"/Root/db":   failed("SCHEME_ERROR", "/Root/db", "path is root"),
		"/Root/db/x": missing,
		"/Root/db/d": failed("SCHEME_ERROR", "/Root/db/d",
			"path has children, request doesn't accept it, children: 2"),
		"/Root/db/d/n": failed("GENERIC_ERROR", "/Root/db/d/n",
			"path is not a directory (id: 5, type: EPathTypeKesus, state: EPathStateNoChanges)"),
	} {
		expect(t, want, tree.removeDirectory(SplitLoose(path)))
	}
	expect(t, "SUCCESS", tree.removeDirectory(SplitLoose("/Root/db/d/e")))
	expect(t, missing, tree.removeDirectory(SplitLoose("/Root/db/d/e")))
	check(t, tree)
}
