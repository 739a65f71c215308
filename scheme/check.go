package scheme

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check verifies the invariants of the package comment over the whole tree and returns the first violation.
// It costs O(n log n) and is meant for tests, for Restore and for the offline check of a data directory.
func (t *Tree) Check() error {
	if err := t.checkRoots(); err != nil {
		return err
	}
	linked, bytes := len(t.root.children), uint64(0)
	nodes := make([]NodeID, 0, len(t.byID))
	for i, v := range t.byID {
		if i > 0 && t.byID[i-1].entry.ID >= v.entry.ID {
			return fmt.Errorf("scheme: entries %d and %d are out of order", t.byID[i-1].entry.ID, v.entry.ID)
		}
		if err := t.checkVertex(v); err != nil {
			return fmt.Errorf("scheme: entry %d (%q): %w", v.entry.ID, v.entry.Name, err)
		}
		linked += len(v.children)
		bytes += EntryBytes(&v.entry)
		if v.entry.Kind == CoordinationNode {
			nodes = append(nodes, v.entry.Node)
		}
	}
	if linked != len(t.byID) {
		return fmt.Errorf("scheme: %d entries, but %d are somebody's children", len(t.byID), linked)
	}
	if bytes != t.bytes {
		return fmt.Errorf("scheme: the entries count %d bytes, the tree says %d", bytes, t.bytes)
	}
	slices.Sort(nodes)
	for i := 1; i < len(nodes); i++ {
		if nodes[i-1] == nodes[i] {
			return fmt.Errorf("scheme: two entries have node id %d", nodes[i])
		}
	}
	return t.checkChanged()
}

// checkRoots verifies that the entries with the lowest ids are the components of the database path.
func (t *Tree) checkRoots() error {
	if len(t.root.children) != 1 {
		return fmt.Errorf("scheme: %d entries at the top, want 1", len(t.root.children))
	}
	for i, name := range t.database {
		kind := Directory
		if i == len(t.database)-1 {
			kind = Database
		}
		if i >= len(t.byID) {
			return fmt.Errorf("scheme: no root entry %d (%q)", i+1, name)
		}
		want := Entry{ID: EntryID(i + 1), Parent: EntryID(i), Name: name, Kind: kind}
		got := t.byID[i].entry
		if got.ID != want.ID || got.Parent != want.Parent || got.Name != want.Name || got.Kind != want.Kind {
			return fmt.Errorf("scheme: root entry %d is %d %q, %s below %d; want %q, %s", want.ID, got.ID,
				got.Name, got.Kind, got.Parent, want.Name, want.Kind)
		}
	}
	return nil
}

// checkVertex verifies one entry and its links.
func (t *Tree) checkVertex(v *vertex) error {
	e := v.entry
	switch {
	case e.Name == "" || strings.Contains(e.Name, "/"):
		return errors.New("bad name")
	case e.Kind != Directory && e.Kind != CoordinationNode && (e.Kind != Database || !t.isRoot(v)):
		return fmt.Errorf("bad kind: %s", e.Kind)
	case (e.Kind == CoordinationNode) != (e.Node != 0):
		return fmt.Errorf("%s with node id %d", e.Kind, e.Node)
	case len(v.children) > 0 && !e.Kind.likeDirectory():
		return fmt.Errorf("%s with children", e.Kind)
	case v.parent == nil || v.parent.entry.ID != e.Parent || e.Parent >= e.ID:
		return fmt.Errorf("bad parent %d", e.Parent)
	case v.parent != t.root && t.get(e.Parent) != v.parent:
		return fmt.Errorf("parent %d is not in the tree", e.Parent)
	}
	if at, found := v.parent.search(e.Name); !found || v.parent.children[at] != v {
		return errors.New("not where its parent looks for it")
	}
	return checkPermissions(e.Permissions)
}

func checkPermissions(permissions []Permission) error {
	for i, p := range permissions {
		if indexSubject(permissions, p.Subject) != i {
			return fmt.Errorf("subject %q appears twice", p.Subject)
		}
		if len(p.Names) == 0 {
			return fmt.Errorf("subject %q has no permission", p.Subject)
		}
		for j, name := range p.Names {
			if stored, known := storedName(name); !known || stored != name ||
				slices.Index(p.Names, name) != j {
				return fmt.Errorf("subject %q: permission %q is unknown or appears twice", p.Subject, name)
			}
		}
	}
	return nil
}

func (t *Tree) checkChanged() error {
	for i := 1; i < len(t.changed); i++ {
		if t.changed[i-1] >= t.changed[i] {
			return fmt.Errorf("scheme: changed ids %d and %d are out of order", t.changed[i-1], t.changed[i])
		}
	}
	return nil
}

func indexSubject(permissions []Permission, subject string) int {
	return slices.IndexFunc(permissions, func(p Permission) bool { return p.Subject == subject })
}
