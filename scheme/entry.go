package scheme

import "fmt"

// Kind is the kind of an entry. The numbers are those of Ydb.Scheme.Entry.Type.
type Kind uint8

// The kinds of entries.
const (
	Directory        Kind = 1
	Database         Kind = 4
	CoordinationNode Kind = 7
)

// String returns the kind in plain words.
func (k Kind) String() string {
	switch k {
	case Directory:
		return "directory"
	case Database:
		return "database"
	case CoordinationNode:
		return "coordination node"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// likeDirectory reports whether entries of this kind hold others.
func (k Kind) likeDirectory() bool { return k == Directory || k == Database }

// typeName is the kind as the texts of the reference write it.
func (k Kind) typeName() string {
	switch k {
	case Database:
		return "EPathTypeSubDomain"
	case CoordinationNode:
		return "EPathTypeKesus"
	}
	return "EPathTypeDir"
}

// EntryID is the key of an entry's row, from 1 up; 0 is the unnamed root. It is unique among the entries that
// exist, not for ever (see the package comment).
type EntryID uint64

// NodeID names a coordination node. The caller gives it at creation, and never gives one twice; 0 is no node.
type NodeID uint64

// Stamp is a creation time as YDB shows it (created_at).
type Stamp struct {
	PlanStep uint64 // the leader's clock when it proposed the command, milliseconds since 1970
	TxID     uint64 // index of the command's entry in the log, which commands may share
}

// RootOwner owns the root entries, and everything created by a caller that names no owner.
const RootOwner = "root@builtin"

// Entry is one directory or coordination node: the content of one row. Permissions belong to the tree: a reader must
// not change them.
type Entry struct {
	ID     EntryID
	Parent EntryID // 0 for the topmost entry
	Name   string
	Kind   Kind
	Node   NodeID // only if Kind is CoordinationNode
	Owner  string
	// those given to this entry itself, subjects in the order of their first grant
	Permissions          []Permission
	InterruptInheritance bool // the permissions of the entries above do not count here
	Created              Stamp
	Quota                Quota
}

// basicInfo is the phrase for an existing entry in the texts of the reference.
func (e Entry) basicInfo() string {
	return fmt.Sprintf("(id: %d, type: %s, state: EPathStateNoChanges)", e.ID, e.Kind.typeName())
}

// Quota bounds what an entry and everything below it may take; 0 is no bound.
type Quota struct {
	Bytes   uint64 // of rows: those of the entry and of all below it, and what coordination nodes hold
	Entries uint64 // below the entry
}
