package scheme

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme/outcome"
)

// model is the tree done naively: a map from joined path to entry, searched from end to end for every
// question. It shares nothing with the Tree but the types, so that the two reach the same answers in
// different ways.
type model struct {
	database string
	limits   Limits
	entries  map[string]*Entry
}

func newModel(database string, limits Limits) *model {
	m := &model{database: database, limits: limits, entries: map[string]*Entry{}}
	joined := ""
	for _, name := range strings.Split(database[1:], "/") {
		joined += "/" + name
		m.put(joined, Entry{Kind: Directory, Owner: "root@builtin"})
	}
	m.entries[joined].Kind = Database
	return m
}

func parentOf(path string) string { return path[:strings.LastIndex(path, "/")] }

func (m *model) put(path string, e Entry) {
	e.Name = path[len(parentOf(path))+1:]
	if parent := m.entries[parentOf(path)]; parent != nil {
		e.Parent = parent.ID
	}
	for _, other := range m.entries {
		e.ID = max(e.ID, other.ID)
	}
	e.ID++
	m.entries[path] = &e
}

func (m *model) children(path string) int {
	n := 0
	for other := range m.entries {
		if parentOf(other) == path {
			n++
		}
	}
	return n
}

func (m *model) paths() int { return len(m.entries) - strings.Count(m.database, "/") }

// info is the parenthesis that introduces an existing entry in a text.
func (m *model) info(path string) string {
	e := m.entries[path]
	kind := map[Kind]string{Directory: "Dir", Database: "SubDomain", CoordinationNode: "Kesus"}[e.Kind]
	return fmt.Sprintf("(id: %d, type: EPathType%s, state: EPathStateNoChanges)", e.ID, kind)
}

func (m *model) create(path string, leaf Entry, configHasPath bool) string {
	const config = "BAD_REQUEST [0/1] Setting path is not allowed"
	names := strings.Split(path[1:], "/")
	if m.entries["/"+names[0]] == nil {
		return "SCHEME_ERROR [0/1] Cannot resolve working dir, path: '" + path + "'"
	}
	if existing := m.entries[path]; existing != nil {
		switch {
		case configHasPath:
			return config
		case leaf.Kind == existing.Kind, leaf.Kind == Directory && existing.Kind == Database:
			return failed("SUCCESS", path, "path exist, request accepts it "+m.info(path))
		case leaf.Kind == CoordinationNode:
			return failed("SCHEME_ERROR", path,
				"unexpected path type "+m.info(path)+", expected types: EPathTypeKesus")
		}
		return failed("SCHEME_ERROR", path, "unexpected path type "+m.info(path)+
			", expected types: EPathTypeDir, EPathTypeSubDomain")
	}
	missing := []string{}
	for at := path; m.entries[at] == nil; at = parentOf(at) {
		missing = append([]string{at}, missing...)
	}
	base := parentOf(missing[0])
	if m.entries[base].Kind == CoordinationNode {
		if configHasPath {
			return config
		}
		return failed("GENERIC_ERROR", base, "path is not a directory "+m.info(base))
	}
	for i, at := range missing {
		if at == path && configHasPath {
			return config
		}
		if refusal := m.refuse(at, m.paths()+i); refusal != "" {
			return refusal
		}
	}
	for _, at := range missing {
		if at != path {
			m.put(at, Entry{Kind: Directory, Owner: leaf.Owner, Created: leaf.Created})
		}
	}
	m.put(path, leaf)
	return "SUCCESS"
}

func (m *model) refuse(path string, paths int) string {
	name, depth := path[len(parentOf(path))+1:], strings.Count(path, "/")
	switch {
	case len(name) > m.limits.NameBytes:
		return failed("SCHEME_ERROR", path, "path part is too long")
	case name == ".sys":
		return failed("SCHEME_ERROR", path, "path part '.sys' is reserved by the system")
	case name == "..":
		return failed("SCHEME_ERROR", path, "is not allowed path part contains only dots '..'")
	case strings.Contains(name, " "):
		return failed("SCHEME_ERROR", path, "symbol ' ' is not allowed in the path part '"+name+"'")
	case depth > m.limits.Depth:
		return failed("SCHEME_ERROR", path,
			fmt.Sprintf("paths depth limit exceeded, limit: %d, depth: %d, delta: 0", m.limits.Depth, depth))
	case paths+1 > m.limits.Paths:
		return failed("PRECONDITION_FAILED", path,
			fmt.Sprintf("paths count limit exceeded, limit: %d, paths: %d, delta: 1", m.limits.Paths, paths))
	}
	if n := m.children(parentOf(path)); n+1 > m.limits.Children {
		return failed("PRECONDITION_FAILED", path,
			fmt.Sprintf("children count limit exceeded, limit: %d, children: %d, delta: 1", m.limits.Children,
				n))
	}
	return ""
}

func (m *model) dropNode(path string) (NodeID, string) {
	e := m.entries[path]
	if e == nil {
		return 0, missing
	}
	if e.Kind != CoordinationNode {
		return 0, failed("SCHEME_ERROR", path, "path is not a kesus "+m.info(path))
	}
	delete(m.entries, path)
	return e.Node, "SUCCESS"
}

func (m *model) removeDirectory(path string) string {
	e := m.entries[path]
	switch {
	case e == nil:
		return missing
	case path == m.database || strings.HasPrefix(m.database, path+"/"):
		return failed("SCHEME_ERROR", path, "path is root")
	case e.Kind != Directory:
		return failed("GENERIC_ERROR", path, "path is not a directory "+m.info(path))
	case m.children(path) > 0:
		return failed("SCHEME_ERROR", path,
			fmt.Sprintf("path has children, request doesn't accept it, children: %d", m.children(path)))
	}
	delete(m.entries, path)
	return "SUCCESS"
}

// modify keeps the permissions as a list of (subject, name) pairs while it works.
func (m *model) modify(path string, change PermissionsChange) string {
	e := m.entries[path]
	if e == nil {
		return missing
	}
	after := *e
	var pairs [][2]string
	for _, p := range after.Permissions {
		for _, name := range p.Names {
			pairs = append(pairs, [2]string{p.Subject, name})
		}
	}
	drop := func(subject, name string) {
		pairs = slices.DeleteFunc(pairs, func(p [2]string) bool {
			return p[0] == subject && (name == "" || p[1] == name)
		})
	}
	if change.Clear {
		pairs = nil
	}
	if change.Interrupt != nil {
		after.InterruptInheritance = *change.Interrupt
	}
	size := 0
	measure := func() bool {
		size = len(after.Owner)
		for _, p := range pairs {
			size += 12 + len(p[0])
		}
		return size > m.limits.ACLBytes
	}
	for tooBig := measure(); !tooBig && len(change.Actions) > 0; tooBig = measure() {
		action := change.Actions[0]
		change.Actions = change.Actions[1:]
		if action.Kind == ChangeOwner && action.Subject != "" {
			after.Owner = action.Subject
		}
		if action.Kind == Set {
			drop(action.Subject, "")
		}
		for _, name := range action.Names {
			pair := [2]string{action.Subject, name}
			if action.Kind == Revoke {
				drop(action.Subject, name)
			} else if !slices.Contains(pairs, pair) {
				pairs = append(pairs, pair)
			}
		}
	}
	if measure() {
		return failed("BAD_REQUEST", path, fmt.Sprintf("ACL size limit exceeded, limit: %d, new ACL size: %d",
			m.limits.ACLBytes, size))
	}
	after.Permissions = nil
	for _, pair := range pairs {
		at := slices.IndexFunc(after.Permissions, func(p Permission) bool { return p.Subject == pair[0] })
		if at < 0 {
			at = len(after.Permissions)
			after.Permissions = append(after.Permissions, Permission{Subject: pair[0]})
		}
		after.Permissions[at].Names = append(after.Permissions[at].Names, pair[1])
	}
	*e = after
	return "SUCCESS"
}

// rows are the model's entries in the order of their ids.
func (m *model) rows() []Entry {
	var rows []Entry
	for _, e := range m.entries {
		rows = append(rows, *e)
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].ID < rows[j].ID })
	return rows
}

// walk does the same random operations on a tree and on the model.
type walk struct {
	t     *testing.T
	rng   *rand.Rand
	tree  *Tree
	model *model
	rows  map[EntryID]Entry // what a checkpoint fed by TakeChanged would hold
	node  NodeID            // last one given
}

// TestAgainstModel compares every outcome, every row and every listing with the model's. Small limits, few
// names and many collisions bring out the refusals.
func TestAgainstModel(t *testing.T) {
	for _, database := range []string{"/local", "/Root/a"} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("%s/seed=%d", database[1:], seed), func(t *testing.T) {
				t.Parallel()
				limits := Limits{NameBytes: 5, Depth: 5, Children: 3, Paths: 9, ACLBytes: 90, Actions: 10}
				w := &walk{
					t: t, rng: rand.New(rand.NewPCG(seed, 2)), tree: newTree(t, database, limits),
					model: newModel(database, limits), rows: map[EntryID]Entry{},
				}
				for range 1000 {
					w.step()
					if t.Failed() {
						t.Fatalf("database %s, seed %d", database, seed)
					}
				}
			})
		}
	}
}

func (w *walk) step() {
	path := w.path()
	joined := "/" + strings.Join(path, "/")
	at := Stamp{w.rng.Uint64N(100), w.rng.Uint64N(100)}
	owner := []string{"root@builtin", "ann"}[w.rng.IntN(2)]
	switch w.rng.IntN(10) {
	case 0, 1:
		w.same(joined, w.tree.makeDirectory(path, owner, at),
			w.model.create(joined, Entry{Kind: Directory, Owner: owner, Created: at}, false))
	case 2, 3:
		w.node++
		config := w.rng.IntN(5) == 0
		before := len(w.model.entries)
		created, answer := w.tree.createNode(path,
			NewNode{ID: w.node, Owner: owner, Created: at, ConfigHasPath: config})
		w.same(joined, answer,
			w.model.create(joined, Entry{Kind: CoordinationNode, Node: w.node, Owner: owner, Created: at},
				config))
		if created != (len(w.model.entries) > before) {
			w.t.Errorf("%s: created is %t", joined, created)
		}
	case 4, 5:
		id, answer := w.tree.dropNode(path)
		wantID, want := w.model.dropNode(joined)
		w.same(joined, answer, want)
		if id != wantID {
			w.t.Errorf("%s: dropped node %d, want %d", joined, id, wantID)
		}
	case 6, 7:
		w.same(joined, w.tree.removeDirectory(path), w.model.removeDirectory(joined))
	case 8:
		change := w.permissionsChange()
		w.same(joined, w.tree.modifyPermissions(path, change), w.model.modify(joined, change))
	case 9:
		w.takeChanged()
		if w.rng.IntN(4) == 0 {
			w.restore()
		}
	}
	w.compare(path, joined)
}

// path is any path of one to seven components; most are below the database.
func (w *walk) path() Path {
	path := w.tree.Database()
	switch w.rng.IntN(8) {
	case 0:
		path = Path{"other"}
	case 1:
		return path[:1+w.rng.IntN(len(path))]
	}
	for range 1 + w.rng.IntN(5) {
		names := []string{"a", "b", "c", "d", "a", "b", "c", "d", "a", "b", "c", "12345", "123456", ".sys",
			"..", "a b"}
		path = append(path, names[w.rng.IntN(len(names))])
		if w.rng.IntN(2) == 0 {
			break
		}
	}
	return path
}

func (w *walk) permissionsChange() PermissionsChange {
	change := PermissionsChange{Clear: w.rng.IntN(5) == 0}
	if w.rng.IntN(4) == 0 {
		interrupt := w.rng.IntN(2) == 0
		change.Interrupt = &interrupt
	}
	for range w.rng.IntN(4) {
		action := Action{Kind: ActionKind(1 + w.rng.IntN(4)),
			Subject: []string{"", "u", "v", "w"}[w.rng.IntN(4)]}
		if action.Kind != ChangeOwner {
			for range w.rng.IntN(4) {
				action.Names = append(action.Names, []string{read, write, list}[w.rng.IntN(3)])
			}
		}
		change.Actions = append(change.Actions, action)
	}
	return change
}

func (w *walk) same(path string, got outcome.Outcome, want string) {
	w.t.Helper()
	if got.String() != want {
		w.t.Errorf("%s:\ngot  %s\nwant %s", path, got, want)
	}
}

// takeChanged brings the checkpoint up to date and compares it.
func (w *walk) takeChanged() {
	last := EntryID(0)
	for _, c := range w.tree.TakeChanged() {
		if c.ID <= last {
			w.t.Errorf("change of %d behind %d", c.ID, last)
		}
		last = c.ID
		if c.Removed {
			delete(w.rows, c.ID)
		} else {
			w.rows[c.ID] = c.Entry
		}
	}
	want := w.model.rows()
	if len(w.rows) != len(want) {
		w.t.Errorf("%d rows, want %d", len(w.rows), len(want))
	}
	for _, e := range want {
		if !sameEntry(w.rows[e.ID], e) {
			w.t.Errorf("row %d is %+v, want %+v", e.ID, w.rows[e.ID], e)
		}
	}
}

// restore goes on with a tree made from the rows, which must not be noticed.
func (w *walk) restore() {
	again, err := NewWithLimits(w.model.database, w.model.limits)
	if err == nil {
		err = again.Restore(slices.Collect(w.tree.All()))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.tree = again
}

func (w *walk) compare(path Path, joined string) {
	if err := w.tree.Check(); err != nil {
		w.t.Error(err)
	}
	if got, want := slices.Collect(w.tree.All()), w.model.rows(); !slices.EqualFunc(got, want, sameEntry) {
		w.t.Errorf("rows are\n%+v\nwant\n%+v", got, want)
	}
	entry, found := w.tree.Lookup(path)
	if want := w.model.entries[joined]; found != (want != nil) || found && !sameEntry(entry, *want) {
		w.t.Errorf("%s is %+v, want %+v", joined, entry, want)
	}
	children := w.tree.Children(path)
	if len(children) != w.model.children(joined) {
		w.t.Errorf("%s has children %v", joined, children)
	}
	for i, child := range children {
		if want := w.model.entries[joined+"/"+child.Name]; want == nil || !sameEntry(child, *want) {
			w.t.Errorf("%s/%s is %+v, want %+v", joined, child.Name, child, want)
		}
		if i > 0 && children[i-1].Name >= child.Name {
			w.t.Errorf("%s: %s is listed behind %s", joined, child.Name, children[i-1].Name)
		}
	}
}
