package raftstore

import "time"

// Defaults of Config. Each is a trade between disk use, the time a restart takes and background work.
const (
	// DefaultSegmentBytes is the size at which a log file is closed and the next one begun. The file takes
	// this much disk from the start.
	DefaultSegmentBytes = 32 << 20
	// DefaultCheckpointBytes bounds the log that is applied before a checkpoint is due. See Checkpoints.LogFull for
	// what there may be beyond it.
	DefaultCheckpointBytes = 32 << 20
	// DefaultCheckpointCommands commands applied make a checkpoint due; it bounds replay.
	DefaultCheckpointCommands = 250_000
	// DefaultTailEntriesKept entries stay in the log below a checkpoint, for members that lag a little.
	DefaultTailEntriesKept = 5_000
	// DefaultLagEntriesKept and DefaultLagBytesKept bound what else stays in the leader's log for a member
	// that is there and lags more. The bytes, which bound the tail as well, are counted from checkpoint to
	// checkpoint. None of it is replayed.
	DefaultLagEntriesKept = 500_000
	DefaultLagBytesKept   = 128 << 20
	// DefaultTailBytes bounds the recent entries kept in memory, once they have been handed over.
	DefaultTailBytes = 16 << 20
)

// MaxCommandBytes is the largest command Propose takes. A message to another member
// has room for twice as much.
const MaxCommandBytes = 32 << 20

// Bounds on what may be under way. Beyond them work waits in front of the store; see Store.Backlog.
const (
	uncommittedBytesMax = 32 << 20 // in the leader's log, not yet applied
	handedBytesMax      = 16 << 20 // handed to the handler, not yet applied
	writeBytesMax       = 16 << 20 // one log write takes no further batch once it has this much
	messageBytesMax     = 1 << 20  // one message to another member
	inflightMessagesMax = 256
	inflightBytesMax    = 32 << 20
	checkpointQueueMax  = 4 << 20               // rows waiting for the run that is being written
	stepPause           = 3                     // times as long as a step took, until the next one
	stepPauseMax        = 50 * time.Millisecond // but no longer than that
	segmentBytesMin     = 4 << 10
	segmentBytesMax     = 1 << 30
)

// Raft's clock: the leader is heard every 100 ms, and an election begins after 1 to 2 s without one.
const (
	tickInterval   = 50 * time.Millisecond
	heartbeatTicks = 2
	electionTicks  = 20
)

// Bounds on the traffic between members.
const (
	memberTextMax    = 255
	clientTextMax    = 600 // room for two names of full length with their ports
	receivedBytesMax = 64 << 20
	// without a leader until nobody is heard before members were asked
	leaderlessTicks = 2 * electionTicks
	joinPause       = 200 * time.Millisecond
	// until a refusal to join counts: the server that has refused may lag behind
	joinPatience = 3 * time.Second
	// without a leader until a member with a full disk stands for election
	holdBackTicks      = 3 * electionTicks
	silenceTicks       = 40 // a member not heard for so long gets a new connection
	leaseTicks         = 4  // between two rounds that confirm leadership
	deafTicks          = 10 // without its lease until a leader makes way for another
	hushTicks          = 2  // so long before that it falls silent
	pauseTicks         = 3  // further apart, two ticks show that the process was paused
	promoteLagMax      = 1_000
	retryTicks         = 10 // before a membership change is proposed again
	awaitTicks         = 40 // until a member that is starting is not awaited any more, see Member.Awaited
	campaignDelayMax   = 100 * time.Millisecond
	campaignTries      = 5
	snapshotChunkBytes = 256 << 10
	snapshotRate       = 64 << 20 // bytes per second
	backupTimeMax      = time.Hour
	slowWriteMax       = 500 * time.Millisecond // a leader whose disk takes longer steps aside
	spacePause         = time.Second
	snapshotsMax       = 2 // sent at a time
)
