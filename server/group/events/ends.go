package events

import "github.com/coordd/coordd/coordination"

// EndReason is the reason for which a session ended, or a lock was lost.
type EndReason int

// The reasons.
const (
	Expired EndReason = iota
	Stopped
	Killed
	Dropped // with its node
	Deleted // with its semaphore; no session
	EndReasons
)

// String returns the name of the reason in the metrics.
func (r EndReason) String() string {
	return [EndReasons]string{"expired", "stopped", "killed", "dropped", "deleted"}[r]
}

var endReasons = map[coordination.OccurrenceKind]EndReason{
	coordination.OccurSessionExpired: Expired, coordination.OccurSessionStopped: Stopped,
	coordination.OccurSessionEnded: Killed, coordination.OccurSemaphoreDeleted: Deleted,
}

// Ends counts the sessions that ended while this server led, and the locks that were lost without a release.
type Ends struct{ Sessions, Locks [EndReasons]uint64 }

// count counts an event.
func (e *Ends) count(o *coordination.Occurrence) {
	switch o.Kind {
	case coordination.OccurLockLost:
		if o.Cause != 0 {
			e.Locks[endReasons[o.Cause]]++
		}
	case coordination.OccurNodeDropped:
		e.Sessions[Dropped] += o.Count
		e.Locks[Dropped] += o.Before
	case coordination.OccurSessionExpired, coordination.OccurSessionStopped, coordination.OccurSessionEnded:
		e.Sessions[endReasons[o.Kind]]++
	}
}
