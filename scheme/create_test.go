package scheme

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme/outcome"
)

func newTree(t *testing.T, database string, limits Limits) *Tree {
	t.Helper()
	tree, err := NewWithLimits(database, limits)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// sampleTree has /local with the directory d, the node n (id 1) and the node d/m (id 2).
func sampleTree(t *testing.T) *Tree {
	t.Helper()
	tree := newTree(t, "/local", DefaultLimits())
	expect(t, "SUCCESS", tree.makeDirectory(SplitLoose("/local/d"), "ann", Stamp{1, 2}))
	_, answer := tree.createNode(SplitLoose("/local/n"), NewNode{ID: 1, Owner: "bob", Created: Stamp{3, 4}})
	expect(t, "SUCCESS", answer)
	_, answer = tree.createNode(SplitLoose("/local/d/m"), NewNode{ID: 2})
	expect(t, "SUCCESS", answer)
	check(t, tree)
	return tree
}

func expect(t *testing.T, want string, got outcome.Outcome) {
	t.Helper()
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func check(t *testing.T, tree *Tree) {
	t.Helper()
	if err := tree.Check(); err != nil {
		t.Fatal(err)
	}
}

// dump is every path of the tree with what is there, in depth-first order.
func dump(tree *Tree) string {
	var b strings.Builder
	var walk func(Path)
	walk = func(path Path) {
		for _, child := range tree.Children(path) {
			below := append(slices.Clone(path), child.Name)
			fmt.Fprintf(&b, "%s %d %s %d %s %d/%d\n", below, child.ID, child.Kind, child.Node, child.Owner,
				child.Created.PlanStep, child.Created.TxID)
			walk(below)
		}
	}
	walk(nil)
	return b.String()
}

func failed(status, path, reason string) string {
	return fmt.Sprintf("%s [0/1] Check failed: path: '%s', error: %s", status, path, reason)
}

func TestNew(t *testing.T) {
	for database, want := range map[string]string{
		"/local":    "/local 1 database 0 root@builtin 0/0\n",
		"local":     "/local 1 database 0 root@builtin 0/0\n",
		"//Root/db": "/Root 1 directory 0 root@builtin 0/0\n/Root/db 2 database 0 root@builtin 0/0\n",
	} {
		tree, err := New(database)
		if err != nil {
			t.Fatal(err)
		}
		check(t, tree)
		if got := dump(tree); got != want {
			t.Errorf("New(%q): got\n%swant\n%s", database, got, want)
		}
		if got := tree.Database(); !slices.Equal(got, SplitLoose(database)) {
			t.Errorf("database is %s", got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for database, want := range map[string]string{
		"":                       "scheme: the database path is empty",
		"/":                      "scheme: the database path is empty",
		"/a b":                   `scheme: database path "/a b": symbol ' ' is not allowed in the path part 'a b'`,
		"/a:b":                   `scheme: database path "/a:b": symbol ':' is not allowed in a database name`,
		"/a/..":                  `scheme: database path "/a/..": is not allowed path part contains only dots '..'`,
		strings.Repeat("/a", 32): "scheme: the database path has 32 components, at most 31 are allowed",
	} {
		if _, err := New(database); err == nil || err.Error() != want {
			t.Errorf("New(%q): got %v, want %s", database, err, want)
		}
	}
	if _, err := New(strings.Repeat("/a", 31)); err != nil {
		t.Errorf("31 components: %v", err)
	}
	if _, err := NewWithLimits("/local", Limits{}); err == nil {
		t.Error("limits of zero are accepted")
	}
	limits := DefaultLimits()
	limits.Depth = MaxPathParts
	if _, err := NewWithLimits("/local", limits); err == nil {
		t.Error("a depth that the parsers cannot see is accepted")
	}
}

func TestCreateMakesParents(t *testing.T) {
	tree := newTree(t, "/local", DefaultLimits())
	created, answer := tree.createNode(SplitLoose("/local/a/b/n"),
		NewNode{ID: 9, Owner: "ann", Created: Stamp{5, 6}})
	expect(t, "SUCCESS", answer)
	if !created {
		t.Error("not created")
	}
	expect(t, "SUCCESS", tree.makeDirectory(SplitLoose("/local/a/c/d"), "", Stamp{7, 8}))
	check(t, tree)
	want := `/local 1 database 0 root@builtin 0/0
/local/a 2 directory 0 ann 5/6
/local/a/b 3 directory 0 ann 5/6
/local/a/b/n 4 coordination node 9 ann 5/6
/local/a/c 5 directory 0 root@builtin 7/8
/local/a/c/d 6 directory 0 root@builtin 7/8
`
	if got := dump(tree); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// If any entry exists already, the answer reports it and the tree stays as it is.
func TestCreateExisting(t *testing.T) {
	tree := sampleTree(t)
	tree.TakeChanged()
	before := dump(tree)
	for _, c := range []struct {
		path      string
		node, dir string
	}{
		{"/local/n",
			failed("SUCCESS", "/local/n",
				"path exist, request accepts it (id: 3, type: EPathTypeKesus, state: EPathStateNoChanges)"),
			failed("SCHEME_ERROR", "/local/n",
				"unexpected path type (id: 3, type: EPathTypeKesus, state: EPathStateNoChanges), expected types: "+
					"EPathTypeDir, EPathTypeSubDomain")},
		{"/local/d",
			failed("SCHEME_ERROR", "/local/d",
				"unexpected path type (id: 2, type: EPathTypeDir, state: EPathStateNoChanges), expected types: "+
					"EPathTypeKesus"), failed("SUCCESS", "/local/d",
				"path exist, request accepts it (id: 2, type: EPathTypeDir, state: EPathStateNoChanges)")},
		{"/local",
			failed("SCHEME_ERROR", "/local",
				"unexpected path type (id: 1, type: EPathTypeSubDomain, state: EPathStateNoChanges), expected "+
					"types: EPathTypeKesus"), failed("SUCCESS", "/local",
				"path exist, request accepts it (id: 1, type: EPathTypeSubDomain, state: EPathStateNoChanges)")},
		{"/local/n/x",
			failed("GENERIC_ERROR", "/local/n",
				"path is not a directory (id: 3, type: EPathTypeKesus, state: EPathStateNoChanges)"),
			failed("GENERIC_ERROR", "/local/n",
				"path is not a directory (id: 3, type: EPathTypeKesus, state: EPathStateNoChanges)")},
		{"/local/n/bad name/x",
			failed("GENERIC_ERROR", "/local/n",
				"path is not a directory (id: 3, type: EPathTypeKesus, state: EPathStateNoChanges)"),
			failed("GENERIC_ERROR", "/local/n",
				"path is not a directory (id: 3, type: EPathTypeKesus, state: EPathStateNoChanges)")},
		{"/other/x",
			"SCHEME_ERROR [0/1] Cannot resolve working dir, path: '/other/x'",
			"SCHEME_ERROR [0/1] Cannot resolve working dir, path: '/other/x'"},
		{"/",
			"SCHEME_ERROR [0/1] Cannot resolve working dir, path: '/'",
			"SCHEME_ERROR [0/1] Cannot resolve working dir, path: '/'"},
	} {
		created, answer := tree.createNode(SplitLoose(c.path), NewNode{ID: 7})
		expect(t, c.node, answer)
		if created {
			t.Errorf("%s: created", c.path)
		}
		expect(t, c.dir, tree.makeDirectory(SplitLoose(c.path), "", Stamp{}))
	}
	if got := dump(tree); got != before {
		t.Errorf("the tree changed to\n%s", got)
	}
	if changed := tree.TakeChanged(); len(changed) != 0 {
		t.Errorf("changed rows: %v", changed)
	}
}

func TestCreateNodeWithoutID(t *testing.T) {
	tree := newTree(t, "/local", DefaultLimits())
	defer func() {
		if got := recover(); got != "scheme: CreateNode /local/n without a node id" {
			t.Errorf("recovered %v", got)
		}
	}()
	tree.createNode(SplitLoose("/local/n"), NewNode{})
}

// A path in the config is refused behind the directories on the way, and before anything about the node
// itself (coordination.md §1.1 steps 3 and 4).
func TestCreateConfigPathOrder(t *testing.T) {
	tree := sampleTree(t)
	before := dump(tree)
	for path, want := range map[string]string{
		"/other/x": "SCHEME_ERROR [0/1] Cannot resolve working dir, path: '/other/x'",
		"/local/a b/x": failed("SCHEME_ERROR", "/local/a b",
			"symbol ' ' is not allowed in the path part 'a b'"),
		"/local/new/x":   RefuseConfigPath().String(),
		"/local/new/x y": RefuseConfigPath().String(),
		"/local/new":     RefuseConfigPath().String(),
		"/local/x y":     RefuseConfigPath().String(),
		"/local/n":       RefuseConfigPath().String(),
		"/local/d":       RefuseConfigPath().String(),
		"/local/n/x":     RefuseConfigPath().String(),
		"/local/n/a b/x": RefuseConfigPath().String(),
		"/local/a/.sys/x": failed("SCHEME_ERROR", "/local/a/.sys",
			"path part '.sys' is reserved by the system"),
	} {
		created, answer := tree.createNode(SplitLoose(path), NewNode{ID: 5, ConfigHasPath: true})
		expect(t, want, answer)
		if created {
			t.Errorf("%s: created", path)
		}
	}
	if got := dump(tree); got != before {
		t.Errorf("the tree changed to\n%s", got)
	}
}

// Names are checked from the top down, and a refusal leaves no half-made path.
func TestCreateBadNames(t *testing.T) {
	tree := newTree(t, "/local", DefaultLimits())
	before := dump(tree)
	long := strings.Repeat("n", 256)
	for _, c := range []struct {
		path Path
		want string
	}{
		{Path{"local", "a", ""}, failed("SCHEME_ERROR", "/local/a/", "path part shouldn't be empty")},
		{Path{"local", long, "b c"}, failed("SCHEME_ERROR", "/local/"+long, "path part is too long")},
		{Path{"local", ".sys"}, failed("SCHEME_ERROR", "/local/.sys",
			"path part '.sys' is reserved by the system")},
		{Path{"local", "a", "..", "b"}, failed("SCHEME_ERROR", "/local/a/..",
			"is not allowed path part contains only dots '..'")},
		{Path{"local", "a", "ж"}, failed("SCHEME_ERROR", "/local/a/ж",
			"symbol 'ж' is not allowed in the path part 'ж'")},
		{Path{"local", "a", "\xff"}, failed("SCHEME_ERROR", "/local/a/\uFFFD",
			"symbol '\uFFFD' is not allowed in the path part '\uFFFD'")},
	} {
		_, answer := tree.createNode(c.path, NewNode{ID: 1})
		expect(t, c.want, answer)
		expect(t, c.want, tree.makeDirectory(c.path, "", Stamp{}))
	}
	if got := dump(tree); got != before {
		t.Errorf("the tree changed to\n%s", got)
	}
	longest := Path{"local", strings.Repeat("n", 255)}
	expect(t, "SUCCESS", tree.makeDirectory(longest, "", Stamp{}))
}

func TestCreateDepthLimit(t *testing.T) {
	tree := newTree(t, "/Root/db", DefaultLimits())
	deepest := SplitLoose("/Root/db" + strings.Repeat("/d", 30))
	tooDeep := append(slices.Clone(deepest), "n")
	want := failed("SCHEME_ERROR", tooDeep.String(),
		"paths depth limit exceeded, limit: 32, depth: 33, delta: 0")
	before := dump(tree)
	_, answer := tree.createNode(tooDeep, NewNode{ID: 1})
	expect(t, want, answer)
	expect(t, want, tree.makeDirectory(append(tooDeep, "o"), "", Stamp{}))
	if got := dump(tree); got != before {
		t.Errorf("the tree changed to\n%s", got)
	}
	_, answer = tree.createNode(deepest, NewNode{ID: 1})
	expect(t, "SUCCESS", answer)
	check(t, tree)
}

func TestCreateCountLimits(t *testing.T) {
	limits := DefaultLimits()
	limits.Children, limits.Paths = 3, 5
	tree := newTree(t, "/Root/db", limits)
	for i := range 3 {
		expect(t, "SUCCESS", tree.makeDirectory(Path{"Root", "db", fmt.Sprint(i)}, "", Stamp{}))
	}
	expect(t, failed("PRECONDITION_FAILED", "/Root/db/3",
		"children count limit exceeded, limit: 3, children: 3, delta: 1"),
		tree.makeDirectory(SplitLoose("/Root/db/3/x"), "", Stamp{}))

	// Three paths are there; the third component of this one would be the sixth.
	_, answer := tree.createNode(SplitLoose("/Root/db/0/a/b/n"), NewNode{ID: 1})
	expect(t, failed("PRECONDITION_FAILED", "/Root/db/0/a/b/n",
		"paths count limit exceeded, limit: 5, paths: 5, delta: 1"), answer)
	if children := tree.Children(SplitLoose("/Root/db/0")); len(children) != 0 {
		t.Errorf("half-made path: %v", children)
	}
	_, answer = tree.createNode(SplitLoose("/Root/db/0/a/n"), NewNode{ID: 1})
	expect(t, "SUCCESS", answer)

	// The paths are counted before the children, and a removal makes room.
	full := failed("PRECONDITION_FAILED", "/Root/db/3",
		"paths count limit exceeded, limit: 5, paths: 5, delta: 1")
	expect(t, full, tree.makeDirectory(SplitLoose("/Root/db/3"), "", Stamp{}))
	expect(t, "SUCCESS", tree.removeDirectory(SplitLoose("/Root/db/1")))
	expect(t, "SUCCESS", tree.makeDirectory(SplitLoose("/Root/db/3"), "", Stamp{}))
	check(t, tree)
}

func TestDefaultLimits(t *testing.T) {
	want := Limits{NameBytes: 255, Depth: 32, Children: 100000, Paths: 10000, ACLBytes: 10240, Actions: 10000}
	if got := DefaultLimits(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
