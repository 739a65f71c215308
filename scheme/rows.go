package scheme

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Change is a row to write, or to delete if Removed.
type Change struct {
	ID      EntryID
	Removed bool
	Entry   Entry // zero if Removed
}

// TakeChanged returns the rows that differ from those at the previous call (or at Restore, or from none for a
// new tree), each once, in ascending order of ids. An entry that came and went in between is reported as
// removed although its row never existed. The next call starts anew.
func (t *Tree) TakeChanged() []Change {
	changes := make([]Change, len(t.changed))
	for i, id := range t.changed {
		if v := t.get(id); v != nil {
			changes[i] = Change{ID: id, Entry: v.entry}
		} else {
			changes[i] = Change{ID: id, Removed: true}
		}
	}
	t.changed = nil
	return changes
}

// All returns every row, root entries included, in ascending order of ids. The tree must not be changed while
// the sequence is read.
func (t *Tree) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, v := range t.byID {
			if !yield(v.entry) {
				return
			}
		}
	}
}

// Restore replaces the content of the tree by the given rows, in any order. It fails, and leaves the tree as
// it was, if they are not what All of a tree of the same database gives. Limits are not applied: they may
// have been higher when the rows were written. Afterwards no row counts as changed.
func (t *Tree) Restore(entries []Entry) error {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	fresh := emptyTree(t.database, t.limits)
	for _, entry := range entries {
		if err := fresh.restoreOne(entry); err != nil {
			return err
		}
	}
	if err := fresh.Check(); err != nil {
		return err
	}
	*t = *fresh
	return nil
}

// restoreOne links one row. Rows come in ascending order of ids, so the parent is there already.
func (t *Tree) restoreOne(entry Entry) error {
	if n := len(t.byID); entry.ID == 0 || n > 0 && t.byID[n-1].entry.ID == entry.ID {
		return fmt.Errorf("scheme: row id %d is zero or appears twice", entry.ID)
	}
	parent := t.root
	if entry.Parent != 0 {
		if parent = t.get(entry.Parent); parent == nil {
			return fmt.Errorf("scheme: row %d (%q) names parent %d, which is not before it", entry.ID,
				entry.Name, entry.Parent)
		}
	}
	at, taken := parent.search(entry.Name)
	if taken {
		return fmt.Errorf("scheme: rows %d and %d have the same path", parent.children[at].entry.ID, entry.ID)
	}
	entry.Permissions = clonePermissions(entry.Permissions)
	v := &vertex{entry: entry, parent: parent}
	v.setQuota(entry.Quota)
	parent.children = slices.Insert(parent.children, at, v)
	t.byID = append(t.byID, v)
	t.bytes += EntryBytes(&v.entry)
	return nil
}

func clonePermissions(permissions []Permission) []Permission {
	if len(permissions) == 0 {
		return nil
	}
	permissions = slices.Clone(permissions)
	for i := range permissions {
		permissions[i].Names = slices.Clone(permissions[i].Names)
	}
	return permissions
}
