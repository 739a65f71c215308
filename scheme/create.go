package scheme

import (
	"fmt"

	"github.com/coordd/coordd/scheme/outcome"
)

// NewNode has the arguments of CreateNode besides the path.
type NewNode struct {
	ID            NodeID // not 0, never used before
	Owner         string // RootOwner if empty; directories created on the way get the same
	Created       Stamp
	ConfigHasPath bool   // the client's config named a path, which is refused at its place among the checks
	Bytes         uint64 // what the node takes besides its entry
}

// MakeDirectory judges the creation of a directory and of those missing above it, all with the same owner
// (RootOwner if empty) and stamp. An existing directory is SUCCESS with an issue (surface.md §4). Refusals:
// SCHEME_ERROR if something else has the name, for a bad name and for depth; GENERIC_ERROR if an entry above
// is not a directory; PRECONDITION_FAILED for counts and beyond Bound.
func (t *Tree) MakeDirectory(path Path, owner string, created Stamp) (Step, outcome.Outcome) {
	return t.create(path, Entry{Kind: Directory, Owner: owner, Created: created}, NewNode{})
}

// CreateNode judges the creation of a coordination node and of the directories missing above it
// (coordination.md §1.1 steps 3 to 7). An existing coordination node is SUCCESS with an issue and without a
// Step: it keeps its id, and its config must be left alone. Refusals as for MakeDirectory, and BAD_REQUEST
// for ConfigHasPath.
func (t *Tree) CreateNode(path Path, node NewNode) (Step, outcome.Outcome) {
	if node.ID == 0 {
		panic(fmt.Sprintf("scheme: CreateNode %s without a node id", path))
	}
	leaf := Entry{Kind: CoordinationNode, Node: node.ID, Owner: node.Owner, Created: node.Created}
	return t.create(path, leaf, node)
}

// create judges the creation of leaf at path, of which node says more. The order of the checks is that of
// coordination.md §1.1.
func (t *Tree) create(path Path, leaf Entry, node NewNode) (Step, outcome.Outcome) {
	if leaf.Owner == "" {
		leaf.Owner = RootOwner
	}
	base, depth := t.deepest(path)
	if depth == 0 {
		return nil, outcome.Because(outcome.SchemeError,
			fmt.Sprintf("Cannot resolve working dir, path: '%s'", Shown(path.String())))
	}
	exists, inDirectory := depth == len(path), base.entry.Kind.likeDirectory()
	if node.ConfigHasPath && (exists || !inDirectory) {
		return nil, RefuseConfigPath()
	}
	if exists {
		return nil, onExisting(base, leaf.Kind)
	}
	if !inDirectory {
		return nil, notDirectory(base)
	}
	if answer := t.checkMissing(base, path, depth, node.ConfigHasPath); !answer.OK() {
		return nil, answer
	}
	missing := path[depth:]
	if answer := t.refuseGrowth(base, creationBytes(missing, leaf)+node.Bytes,
		uint64(len(missing))); !answer.OK() {
		return nil, answer
	}
	return func() { t.addMissing(base, path, depth, leaf) }, outcome.Done()
}

// addMissing adds the components of path below base, the first depth of which exist; leaf is the last one.
func (t *Tree) addMissing(base *vertex, path Path, depth int, leaf Entry) {
	for ; depth < len(path)-1; depth++ {
		directory := Entry{Name: path[depth], Kind: Directory, Owner: leaf.Owner, Created: leaf.Created}
		base = t.add(base, directory)
	}
	leaf.Name = path[depth]
	t.add(base, leaf)
}

// creationBytes returns the size of the entries that are made for the missing components of a path.
func creationBytes(missing Path, leaf Entry) uint64 {
	bytes := uint64(0)
	for _, name := range missing {
		bytes += EntryBytes(&Entry{Name: name, Owner: leaf.Owner})
	}
	return bytes
}

// onExisting answers the creation of what is already there.
func onExisting(v *vertex, wanted Kind) outcome.Outcome {
	info := v.entry.basicInfo()
	switch {
	case wanted == CoordinationNode && v.entry.Kind != CoordinationNode:
		return checkFailed(outcome.SchemeError, v.path(),
			fmt.Sprintf("unexpected path type %s, expected types: %s", info, CoordinationNode.typeName()))
	case wanted == Directory && !v.entry.Kind.likeDirectory():
		return checkFailed(outcome.SchemeError, v.path(),
			fmt.Sprintf("unexpected path type %s, expected types: %s, %s", info, Directory.typeName(),
				Database.typeName()))
	}
	return checkFailed(outcome.Success, v.path(), "path exist, request accepts it "+info)
}

func notDirectory(v *vertex) outcome.Outcome {
	return checkFailed(outcome.GenericError, v.path(), "path is not a directory "+v.entry.basicInfo())
}

// checkMissing looks at the components of path below base, the first depth of which exist, as if they were
// created one after another, and returns the first refusal. The config belongs to the last of them and is
// looked at just before its name.
func (t *Tree) checkMissing(base *vertex, path Path, depth int, configHasPath bool) outcome.Outcome {
	children := len(base.children)
	for i := depth; i < len(path); i++ {
		if configHasPath && i == len(path)-1 {
			return RefuseConfigPath()
		}
		if status, reason := t.checkOne(path[i], i+1, t.paths()+i-depth, children); reason != "" {
			return checkFailed(status, path[:i+1], reason)
		}
		children = 0
	}
	return outcome.Done()
}

// checkOne checks one component: its depth is counted from the root, paths are those in the tree before it,
// children those of its parent.
func (t *Tree) checkOne(name string, depth, paths, children int) (outcome.Status, string) {
	if reason := nameReason(name, t.limits.NameBytes); reason != "" {
		return outcome.SchemeError, reason
	}
	switch {
	case depth > t.limits.Depth:
		return outcome.SchemeError, fmt.Sprintf("paths depth limit exceeded, limit: %d, depth: %d, delta: 0",
			t.limits.Depth, depth)
	case paths >= t.limits.Paths:
		return outcome.PreconditionFailed,
			fmt.Sprintf("paths count limit exceeded, limit: %d, paths: %d, delta: 1", t.limits.Paths, paths)
	case children >= t.limits.Children:
		return outcome.PreconditionFailed,
			fmt.Sprintf("children count limit exceeded, limit: %d, children: %d, delta: 1", t.limits.Children,
				children)
	}
	return 0, ""
}
