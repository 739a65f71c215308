// Package scheme is the path tree: directories, coordination nodes, their owners and permissions, and the
// syntax of the paths that clients send.
//
// A Tree is replicated state. It has no clock, no randomness, no goroutine and no I/O; the same calls in the
// same order give the same entries, the same ids and the same texts on every server. It is not safe for
// concurrent use: the goroutine that applies the log owns it.
//
// # Shape
//
// The tree hangs from an unnamed root with id 0, the "/" of a path. It has no row, cannot be changed, and holds exactly
// one child: the first component of the database path. The components of the database path are the root entries; they
// are made by New, and are never removed. The last of them has the kind Database.
//
// # Invariants, verified by Check
//
//   - The rows returned by All are the whole state: a tree made by Restore from them behaves exactly as the
//     original. In particular there is no hidden counter: the id of a new entry is one more than the highest
//     id in the tree.
//   - Therefore an EntryID names a row, not an object: it may come back after the newest entry was removed. A
//     NodeID names an object for ever.
//   - A parent's id is lower than its children's, so rows in id order can be restored one by one.
//   - Children are sorted by name, bytewise, and names are unique in a directory.
//   - Only directories and the database have children.
//   - A refused call changes nothing: everything is checked before anything is created.
//
// # Sharing
//
// An Entry that leaves the tree shares its Permissions with it. The tree never changes such a slice in place,
// and neither may the caller.
//
// The rules come from the specification of the YDB surface: coordination.md §1.1 to §1.4 and surface.md §3,
// §4 and §4.1.
package scheme
