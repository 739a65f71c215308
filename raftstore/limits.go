package raftstore

import "time"

// Defaults of Config. Each is a trade between disk use, the time a restart takes and background work.
const (
	// DefaultSegmentBytes is the size at which a log file is closed and the next one begun. The file takes this much
	// disk from the start.
	DefaultSegmentBytes = 32 << 20
	// DefaultCheckpointBytes is how much log may be handed over before a checkpoint is due.
	DefaultCheckpointBytes = 32 << 20
	// DefaultCheckpointEntries is how many entries may be handed over before a checkpoint is due; it bounds replay.
	DefaultCheckpointEntries = 250_000
	// DefaultTailEntriesKept is how many entries stay in the log behind a checkpoint, for members that lag a little.
	DefaultTailEntriesKept = 5_000
	// DefaultTailBytes bounds the recent entries kept in memory, once they have been handed over.
	DefaultTailBytes = 16 << 20
)

// MaxCommandBytes is the largest command Propose takes. raft-wal reads frames of at most 64 MiB; half of it leaves room
// for our header and for a batch.
const MaxCommandBytes = 32 << 20

// Bounds on what may be under way. Beyond them work waits in front of the store; see Store.Backlog.
const (
	uncommittedBytesMax   = 32 << 20 // in the leader's log, not yet applied
	handedBytesMax        = 16 << 20 // handed to the handler, not yet applied
	writeBytesMax         = 16 << 20 // one log write takes no further batch once it has this much
	messageBytesMax       = 1 << 20  // one message to another member
	inflightMessagesMax   = 256
	inflightBytesMax      = 32 << 20
	checkpointQueueMax    = 4 << 20 // rows waiting to be written into the open transaction
	sweepRowsMax          = 1_000   // rows removed by one background transaction
	sweepPause            = 20 * time.Millisecond
	stateMapBytes         = 1 << 30 // address space for state.db, so that growing it rarely has to map it again
	boltGrowBytes         = 1 << 20 // bbolt's files grow in steps of this size
	segmentBytesMin       = 4 << 10
	segmentBytesMax       = 1 << 30
	entryOverheadEstimate = 32
)

// Raft's clock: an election takes 10 to 20 ticks without a leader, the leader is heard every tick.
const (
	tickInterval  = 100 * time.Millisecond
	electionTicks = 10
)
