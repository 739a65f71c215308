package raftstore

import (
	"errors"
	"fmt"

	"github.com/coordd/coordd/raftstore/peers"
)

// VersionError says that the cluster may use commands that this program cannot read. Open and Store.Start
// return it, and Handler.Failed gets it if the cluster has come so far while a new member joined.
type VersionError struct {
	Cluster uint64 // version that all members can read
	Own     uint64 // highest version this program reads
}

// Error tells what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf(
		"the cluster uses commands of version %d, this program reads up to %d: use a later version of it",
		e.Cluster, e.Own)
}

// Refusals of other members.
var (
	ErrRemoved      = peers.ErrRemoved
	ErrEmptied      = peers.ErrEmptied
	ErrOtherCluster = peers.ErrOtherCluster
)

// Errors of membership changes.
var (
	// ErrNotLeader says that only the leader can do this; see Members for who leads.
	ErrNotLeader = errors.New("this member does not lead")
	// ErrQuorum says that the change would leave fewer members that can be reached than a majority needs.
	ErrQuorum = errors.New("the change would lose the quorum")
	// ErrNotMember says that there is no member with this id.
	ErrNotMember = errors.New("no such member")
	// ErrTaken says that another member has the name or the address.
	ErrTaken = errors.New("another member has this name or address")
	// ErrBehind says that the learner is not caught up.
	ErrBehind = errors.New("the member is not caught up")
	// ErrStopped says that the store was stopped or has failed.
	ErrStopped = errors.New("the store is stopped")
)
