package scheme

import "math"

// What the rows of the tree count towards a limit that its user may set with Bound. The charges cover the
// numbers of a row and what its lists take in memory; they decide which commands are refused, so they must
// never change.
const (
	entryBytes      = 256
	permissionBytes = 64
	nameBytes       = 32
)

// EntryBytes is the size of an entry: never less than its encoded row.
func EntryBytes(e *Entry) uint64 {
	bytes := entryBytes + len(e.Name) + len(e.Owner)
	for _, p := range e.Permissions {
		bytes += permissionBytes + len(p.Subject)
		for _, name := range p.Names {
			bytes += nameBytes + len(name)
		}
	}
	return uint64(bytes)
}

// Unbounded is for Bound: no limit.
const Unbounded = math.MaxUint64

// NoSpaceText is the text of a refusal of anything that would make the state larger than its limit.
const NoSpaceText = "Cluster state has no space left"

// Bytes is the size of all entries. It takes no walk.
func (t *Tree) Bytes() uint64 { return t.bytes }

// Bound sets how many bytes all entries may count from now on; at first they are Unbounded. What does not
// grow is possible also above it.
func (t *Tree) Bound(most uint64) { t.most = most }
