package scheme

import "errors"

// Limits bound what clients can put into a tree (surface.md §4.1). A value equal to a limit is accepted. All
// servers of a cluster must use the same ones, because refusals are part of what they compute from the log.
type Limits struct {
	NameBytes int // bytes in one component of a path
	Depth     int // components of a path, those of the database included; at most MaxPathParts-1
	Children  int // entries in one directory
	Paths     int // entries in the tree, root entries not counted
	ACLBytes  int // owner and permissions of one entry, counted as ACLSize counts them
	Actions   int // actions in one ModifyPermissions
}

// DefaultLimits are those of the reference, except Actions, which is ours and keeps one request from
// occupying every server for long.
func DefaultLimits() Limits {
	return Limits{
		NameBytes: 255,
		Depth:     32,
		Children:  100_000,
		Paths:     10_000,
		ACLBytes:  10 << 10,
		Actions:   10_000,
	}
}

// EffectiveSubjects bounds the subjects in the effective permissions of one path: those of all levels of the deepest
// path, each with as many as ACLBytes lets an entry have. It follows from two limits that every grant is checked
// against, so none of its own is needed.
func (l Limits) EffectiveSubjects() int { return l.Depth * (l.ACLBytes / aceBytes) }

const (
	// MaxPathParts bounds the components that the split functions return. The rest is dropped, so that a path of many
	// megabytes costs nothing. No tree is that deep, so a path with that many components names nothing and cannot be
	// created, just as it would be in full.
	MaxPathParts = 256

	// MaxShownBytes bounds a client's path in the text of an issue. A longer one is cut.
	MaxShownBytes = 16 << 10
)

// validate reports limits under which a tree cannot work.
func (l Limits) validate() error {
	switch {
	case l.NameBytes <= 0, l.Depth <= 0, l.Children <= 0, l.Paths <= 0, l.ACLBytes <= 0, l.Actions <= 0:
		return errors.New("scheme: every limit must be positive")
	case l.Depth >= MaxPathParts:
		return errors.New("scheme: the depth limit must be below MaxPathParts")
	}
	return nil
}

// aceBytes is about what the reference stores for one permission besides the subject.
const aceBytes = 12
