package scheme

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
)

// Tree is the path tree of one database. Make one with New.
type Tree struct {
	limits   Limits
	database Path
	root     *vertex   // the unnamed root, id 0, without a row
	byID     []*vertex // every entry, ascending ids
	changed  []EntryID // ascending, unique: entries touched since the last TakeChanged
	bytes    uint64    // sum of EntryBytes
	most     uint64    // see Bound
}

// vertex is one entry in its place.
type vertex struct {
	entry    Entry
	parent   *vertex   // nil for the unnamed root only
	children []*vertex // ascending names
	account  *Account  // nil if the entry has no quota
}

// New returns the tree that holds nothing but the database, such as "/local" or "/Root/db", under
// DefaultLimits. It fails if the database has no components, too many, or one with a name that is not
// allowed.
func New(database string) (*Tree, error) {
	return NewWithLimits(database, DefaultLimits())
}

// NewWithLimits is New with limits of the caller's choice.
func NewWithLimits(database string, limits Limits) (*Tree, error) {
	if err := limits.validate(); err != nil {
		return nil, err
	}
	path := SplitLoose(database)
	switch {
	case len(path) == 0:
		return nil, errors.New("scheme: the database path is empty")
	case len(path) >= limits.Depth:
		return nil, fmt.Errorf("scheme: the database path has %d components, at most %d are allowed",
			len(path), limits.Depth-1)
	}
	t := emptyTree(path, limits)
	parent := t.root
	for i, name := range path {
		if reason := databaseNameReason(name, limits.NameBytes); reason != "" {
			return nil, fmt.Errorf("scheme: database path %q: %s", Shown(database), reason)
		}
		kind := Directory
		if i == len(path)-1 {
			kind = Database
		}
		parent = t.add(parent, Entry{Name: name, Kind: kind, Owner: RootOwner})
	}
	return t, nil
}

func emptyTree(database Path, limits Limits) *Tree {
	return &Tree{limits: limits, database: database, most: Unbounded,
		root: &vertex{entry: Entry{Name: "/", Kind: Directory}}}
}

// Database returns the path of the database.
func (t *Tree) Database() Path { return slices.Clone(t.database) }

// Lookup returns the entry at path. The empty path gives the unnamed root: a directory called "/" with id 0.
func (t *Tree) Lookup(path Path) (Entry, bool) {
	v := t.find(path)
	if v == nil {
		return Entry{}, false
	}
	return v.entry, true
}

// Children returns the entries directly below path, in ascending order of their names, compared bytewise. It
// returns nothing if there is no such path or it is not a directory.
func (t *Tree) Children(path Path) []Entry { return t.ChildrenAfter(path, "", math.MaxInt) }

// ChildrenAfter returns the part of Children whose names come after the given one, but no more than most,
// which is not negative.
func (t *Tree) ChildrenAfter(path Path, after string, most int) []Entry {
	v := t.find(path)
	if v == nil {
		return nil
	}
	from, found := v.search(after)
	if found {
		from++
	}
	page := v.children[from:]
	page = page[:min(most, len(page))]
	if len(page) == 0 {
		return nil
	}
	children := make([]Entry, len(page))
	for i, child := range page {
		children[i] = child.entry
	}
	return children
}

// After returns the entry that comes next behind the given id, in ascending order of ids; false if that was
// the last one.
func (t *Tree) After(id EntryID) (Entry, bool) {
	at, found := t.searchID(id)
	if found {
		at++
	}
	if at == len(t.byID) {
		return Entry{}, false
	}
	return t.byID[at].entry, true
}

// ByID returns the entry of that id.
func (t *Tree) ByID(id EntryID) (Entry, bool) {
	v := t.get(id)
	if v == nil {
		return Entry{}, false
	}
	return v.entry, true
}

// RightsRows bounds the entries that Rights looks at to find the rights at an entry, which must exist.
func (t *Tree) RightsRows(e Entry) (rows int) {
	for range t.get(e.ID).upwards() {
		rows++
	}
	return rows
}

// PathOf returns the path of the entry with the given id.
func (t *Tree) PathOf(id EntryID) (Path, bool) {
	v := t.get(id)
	if v == nil {
		return nil, false
	}
	return v.path(), true
}

// TopOf returns the first component below the database of the path of an entry, "" if the entry itself has that name.
func (t *Tree) TopOf(path Path) string {
	if len(path) < len(t.database)+2 {
		return ""
	}
	return path[len(t.database)]
}

// find returns the vertex at path, or nil.
func (t *Tree) find(path Path) *vertex {
	v, depth := t.deepest(path)
	if depth < len(path) {
		return nil
	}
	return v
}

// deepest follows path as far as it exists, and returns where it ended and after how many components.
func (t *Tree) deepest(path Path) (*vertex, int) {
	v := t.root
	for depth, name := range path {
		at, found := v.search(name)
		if !found {
			return v, depth
		}
		v = v.children[at]
	}
	return v, len(path)
}

// get returns the vertex with the given id, or nil.
func (t *Tree) get(id EntryID) *vertex {
	at, found := t.searchID(id)
	if !found {
		return nil
	}
	return t.byID[at]
}

func (t *Tree) searchID(id EntryID) (int, bool) {
	return slices.BinarySearchFunc(t.byID, id,
		func(v *vertex, id EntryID) int { return cmp.Compare(v.entry.ID, id) })
}

// paths counts the entries that count against Limits.Paths.
func (t *Tree) paths() int { return len(t.byID) - len(t.database) }

// add puts a new entry below parent and gives it its id. The caller has checked that the name is free.
func (t *Tree) add(parent *vertex, entry Entry) *vertex {
	entry.ID = 1
	if n := len(t.byID); n > 0 {
		entry.ID = t.byID[n-1].entry.ID + 1
	}
	entry.Parent = parent.entry.ID
	v := &vertex{entry: entry, parent: parent}
	at, _ := parent.search(entry.Name)
	parent.children = slices.Insert(parent.children, at, v)
	t.byID = append(t.byID, v)
	t.count(v, EntryBytes(&v.entry), 1)
	t.touch(entry.ID)
	return v
}

// remove takes out an entry without children.
func (t *Tree) remove(v *vertex) {
	at, _ := v.parent.search(v.entry.Name)
	v.parent.children = slices.Delete(v.parent.children, at, at+1)
	at, _ = t.searchID(v.entry.ID)
	t.byID = slices.Delete(t.byID, at, at+1)
	t.count(v, -EntryBytes(&v.entry), ^uint64(0))
	t.touch(v.entry.ID)
}

// touch remembers that the row of id has to be written.
func (t *Tree) touch(id EntryID) {
	if at, found := slices.BinarySearch(t.changed, id); !found {
		t.changed = slices.Insert(t.changed, at, id)
	}
}

// search returns where the child called name is, or would be.
func (v *vertex) search(name string) (int, bool) {
	return slices.BinarySearchFunc(v.children, name, func(child *vertex, name string) int {
		return strings.Compare(child.entry.Name, name)
	})
}

// path climbs from the vertex to the root.
func (v *vertex) path() Path {
	var path Path
	for ; v.parent != nil; v = v.parent {
		path = append(path, v.entry.Name)
	}
	slices.Reverse(path)
	return path
}

// Step carries out what an operation was judged to do. It is nil if the operation is refused or changes
// nothing, and valid until the tree changes.
type Step func()

// upwards is the entries of the lineage of v.
func (v *vertex) upwards() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for ; v != nil && yield(&v.entry) && !v.entry.InterruptInheritance; v = v.parent {
		}
	}
}
