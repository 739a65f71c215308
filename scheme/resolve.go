package scheme

import (
	"fmt"

	"github.com/coordd/coordd/scheme/outcome"
)

// NodeToAlter returns the coordination node at path for AlterNode (coordination.md §1.2 steps 2 and 3). A
// missing path is SCHEME_ERROR "Path does not exist", another kind of entry SCHEME_ERROR "path is not a
// kesus".
func (t *Tree) NodeToAlter(path Path) (Entry, outcome.Outcome) {
	v, answer := t.resolveNode(path)
	if !answer.OK() {
		return Entry{}, answer
	}
	return v.entry, answer
}

// NodeToDescribe returns the coordination node at path for DescribeNode. A missing path and another kind of
// entry are both SCHEME_ERROR without any issue (surface.md §3.5); the other kind comes with its lineage,
// because who may not describe it must not learn that.
func (t *Tree) NodeToDescribe(path Path) (Lineage, outcome.Outcome) {
	l := t.lineage(t.find(path))
	if len(l) == 0 || l[0].Kind != CoordinationNode {
		return l, outcome.Refuse(outcome.SchemeError)
	}
	return l, outcome.Done()
}

// EntryToDescribe returns the entry at path for DescribePath and ListDirectory. A missing path is
// SCHEME_ERROR.
func (t *Tree) EntryToDescribe(path Path) (Lineage, outcome.Outcome) {
	l := t.lineage(t.find(path))
	if len(l) == 0 {
		return nil, outcome.Because(outcome.SchemeError, "Path not found")
	}
	return l, outcome.Done()
}

// DropNode judges the removal of the coordination node at path and returns its id. Refusals as for
// NodeToAlter (coordination.md §1.3). Directories above it stay.
func (t *Tree) DropNode(path Path) (NodeID, Step, outcome.Outcome) {
	v, answer := t.resolveNode(path)
	if !answer.OK() {
		return 0, nil, answer
	}
	return v.entry.Node, func() { t.remove(v) }, answer
}

// RemoveDirectory judges the removal of an empty directory (surface.md §4). Refusals: SCHEME_ERROR if it is
// missing, a root entry or not empty; GENERIC_ERROR if it is not a directory.
func (t *Tree) RemoveDirectory(path Path) (Step, outcome.Outcome) {
	v := t.find(path)
	switch {
	case v == nil:
		return nil, pathDoesNotExist()
	case t.isRoot(v):
		return nil, checkFailed(outcome.SchemeError, path, "path is root")
	case v.entry.Kind != Directory:
		return nil, notDirectory(v)
	case len(v.children) > 0:
		return nil, checkFailed(outcome.SchemeError, path,
			fmt.Sprintf("path has children, request doesn't accept it, children: %d", len(v.children)))
	}
	return func() { t.remove(v) }, outcome.Done()
}

func (t *Tree) resolveNode(path Path) (*vertex, outcome.Outcome) {
	v := t.find(path)
	switch {
	case v == nil:
		return nil, pathDoesNotExist()
	case v.entry.Kind != CoordinationNode:
		return nil, checkFailed(outcome.SchemeError, path, "path is not a kesus "+v.entry.basicInfo())
	}
	return v, outcome.Done()
}

// isRoot reports whether v is the unnamed root or a root entry. New makes the root entries first and they are never
// removed, so they hold the lowest ids.
func (t *Tree) isRoot(v *vertex) bool {
	return v.entry.ID <= EntryID(len(t.database))
}
