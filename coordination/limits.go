package coordination

import "cmp"

// Limits of the protocol (§5). All are inclusive: exactly the limit is accepted.
const (
	// MaxSessionTimeoutMillis is the longest session timeout, 30 minutes. There is no infinite session.
	MaxSessionTimeoutMillis = 1_800_000
	// MaxDescriptionBytes bounds a session's description.
	MaxDescriptionBytes = 1024
	// MaxProtectionKeyBytes bounds a session's protection key.
	MaxProtectionKeyBytes = 16
	// MaxSemaphoreNameBytes bounds the name in create and update. Acquire does not check it (§3.1).
	MaxSemaphoreNameBytes = 1024
	// MaxSemaphoreDataBytes bounds a semaphore's data.
	MaxSemaphoreDataBytes = 1_048_576
	// MaxAcquireDataBytes bounds the data that an acquire carries.
	MaxAcquireDataBytes = 1_048_576
	// MaxAcquireTimeoutMillis is the longest finite wait, one day.
	MaxAcquireTimeoutMillis = 86_400_000
	// MaxSessions is how many sessions one node may have.
	MaxSessions = 1_000_000
	// MaxSemaphores is how many semaphores, persistent and ephemeral together, one node may have.
	MaxSemaphores = 1_000_000
)

// Limits of this server that the protocol does not have. They are inclusive too.
const (
	// MaxNodeBytes is how many bytes of semaphore names, semaphore data and acquire data one node may hold.
	MaxNodeBytes = 1 << 30
	// MaxDescribedBytes bounds the answer to a describe, as describedBytes counts it. SDKs refuse to receive messages
	// over 64,000,000 bytes, and would lose the whole stream over one.
	MaxDescribedBytes = 63_000_000
)

// Limits of an entry of the log. They are inclusive too.
const (
	// MaxEntryCommands is how many commands an entry has at most.
	MaxEntryCommands = 1024
	// MaxEntryBytes is how large an entry is that has several commands. A larger command has an entry of its own.
	MaxEntryBytes = 1 << 20
)

// Limits holds the limits that a test cannot fill, so that it may lower them. They are part of the replicated rules:
// every server of a cluster must run with the same ones.
type Limits struct {
	Sessions   int
	Semaphores int
	Bytes      uint64 // of one node; 0: MaxNodeBytes
	Described  int    // bytes of one description; 0: MaxDescribedBytes
}

// DefaultLimits are the limits of the protocol.
func DefaultLimits() Limits {
	return Limits{Sessions: MaxSessions, Semaphores: MaxSemaphores, Bytes: MaxNodeBytes}
}

func (l Limits) bytes() uint64 { return cmp.Or(l.Bytes, MaxNodeBytes) }

func (l Limits) described() int { return cmp.Or(l.Described, MaxDescribedBytes) }
