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
	// MaxSessions bounds the sessions of one node.
	MaxSessions = 1_000_000
	// MaxSemaphores bounds the semaphores of one node, persistent and ephemeral together.
	MaxSemaphores = 1_000_000
)

// Limits of this server that the protocol does not have. They are inclusive too.
const (
	// MaxLinks bounds the semaphores that one session may own or wait for (StateLimits.Links), as a server proposes it:
	// the end or resumption of a session goes through all of them in one turn.
	MaxLinks = 100_000
	// MaxNodeBytes bounds the bytes of semaphore names, semaphore data and acquire data of one node.
	MaxNodeBytes = 1 << 30
	// DefaultStateBytes is the limit of the whole state that a server proposes for a new cluster (StateLimits.State). A
	// server's memory is up to twice that, so 1 GiB suffices; a million semaphores and a hundred thousand sessions fit.
	DefaultStateBytes = 384 << 20
	// MaxDescribedBytes bounds the answer to a describe, as describedBytes counts it. SDKs refuse to receive
	// messages over 64,000,000 bytes, and would lose the whole stream over one.
	MaxDescribedBytes = 63_000_000
)

// Limits of an entry of the log. They are inclusive too.
const (
	// MaxEntryCommands bounds the commands of an entry.
	MaxEntryCommands = 1024
	// MaxEntryBytes bounds an entry of several commands. A larger command has an entry of its own.
	MaxEntryBytes = 1 << 20
)

// Limits are those that a server is configured with. All but Described count only once a command has put them
// into the state (StateLimits, SetLimits): what a command does must not depend on which server executes it.
// Tests lower those of a node, because they cannot fill the real ones.
type Limits struct {
	State      uint64 // bytes of all rows; 0: none is proposed
	Links      uint64 // of one session; 0: none is proposed
	Sessions   int
	Semaphores int
	Bytes      uint64 // of one node; 0: MaxNodeBytes
	Described  int    // bytes of one description; 0: MaxDescribedBytes
}

// DefaultLimits are the limits of the protocol.
func DefaultLimits() Limits {
	return Limits{Sessions: MaxSessions, Semaphores: MaxSemaphores, Bytes: MaxNodeBytes}
}

// StateLimits are those limits that decide what commands do. They are part of the replicated state, because
// servers that execute the same log under different ones would no longer have the same state. The zero value
// is that of a state in which nobody has set any.
type StateLimits struct {
	// State bounds the bytes of all rows together (Machine.Used); 0: no limit.
	State uint64
	// Reserve is the part of these that only commands of administrators may use.
	Reserve uint64
	// NodeBytes, Sessions and Semaphores are the limits of one node; 0: MaxNodeBytes, MaxSessions, MaxSemaphores.
	// Servers propose 0, except in tests.
	NodeBytes, Sessions, Semaphores uint64
	// Links bounds the semaphores that one session owns or waits for; 0: no limit.
	Links uint64
}

func (l *StateLimits) nodeBytes() uint64 { return cmp.Or(l.NodeBytes, MaxNodeBytes) }

func (l *StateLimits) sessions() uint64 { return cmp.Or(l.Sessions, MaxSessions) }

func (l *StateLimits) semaphores() uint64 { return cmp.Or(l.Semaphores, MaxSemaphores) }

// merge returns the limits with those of other in their place that are not 0.
func (l StateLimits) merge(other StateLimits) StateLimits {
	return StateLimits{State: cmp.Or(other.State, l.State), Reserve: cmp.Or(other.Reserve, l.Reserve),
		NodeBytes: cmp.Or(other.NodeBytes, l.NodeBytes),
		Sessions:  cmp.Or(other.Sessions, l.Sessions), Semaphores: cmp.Or(other.Semaphores, l.Semaphores),
		Links: cmp.Or(other.Links, l.Links)}
}

// First returns the limits with those of other that SetLimits.OnlyFirst sets: Links by itself, because it came
// later than the rest, which is set together.
func (l StateLimits) First(other StateLimits) StateLimits {
	links := cmp.Or(l.Links, other.Links)
	if l.Links = 0; l == (StateLimits{}) {
		l = other
	}
	l.Links = links
	return l
}

// ReserveOf is the Reserve of a limit of the state.
func ReserveOf(state uint64) uint64 { return state / 16 }

// Proposed returns a server's proposal for a state without limits; the zero value: nothing.
func (l Limits) Proposed() StateLimits {
	other := func(value, usual uint64) uint64 {
		if value == usual {
			return 0
		}
		return value
	}
	return StateLimits{State: l.State, Reserve: ReserveOf(l.State), Links: l.Links,
		NodeBytes:  other(l.Bytes, MaxNodeBytes),
		Sessions:   other(uint64(l.Sessions), MaxSessions),
		Semaphores: other(uint64(l.Semaphores), MaxSemaphores)}
}

func (l Limits) described() int { return cmp.Or(l.Described, MaxDescribedBytes) }
