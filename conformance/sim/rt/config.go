package rt

// Node is a process of the simulated world. There are at most MaxNodes in one run; a restarted server gets a new one.
type Node int32

// World is the node of the simulation itself. It is never frozen, and its clock is the bubble's.
const World Node = 0

// MaxNodes bounds the nodes of one run.
const MaxNodes = 1024

// Config holds the runtime's decisions that a run may vary.
type Config struct {
	Seed uint64
	// Yield, of 65536, is the chance that a goroutine that becomes runnable is put at the end of the queue, not at its
	// head. With a sixteenth of it a goroutine yields in a channel operation or before it locks a mutex.
	Yield uint32
	// Patience is the number of channel operations and locks after which a goroutine that has not been switched is
	// preempted. 0 means DefaultPatience.
	Patience uint32
	// Spin is the number of switches at one instant of the virtual time after which the program ends with all stacks:
	// something waits without letting the time pass. 0 means DefaultSpin.
	Spin uint64
	// Record is the number of switches that are recorded for WriteSwitches.
	Record int
}

// Defaults of Config.
const (
	DefaultPatience = 20_000
	DefaultSpin     = 5_000_000
)

// Op is an operation that changes a file.
type Op string

// The operations that a disk hook is called for, each before it happens; Synced follows a sync that succeeded.
const (
	Write    Op = "write"    // data at an offset; -1 is the file's position
	Create   Op = "create"   // an open with O_CREATE or O_TRUNC; the offset has the flags
	Truncate Op = "truncate" // to the offset
	Allocate Op = "allocate" // up to the offset
	Rename   Op = "rename"
	Remove   Op = "remove" // of one name, not by RemoveAll
	Sync     Op = "sync"   // of data or everything, of a file or a directory
	Synced   Op = "synced"
)

// DiskHook is called for each change of a file. An error takes the change's place; of a Write the first keep bytes are
// then written nevertheless. It is called on the goroutine, and so the node, that changes the file.
type DiskHook func(op Op, name, to string, offset int64, data []byte) (keep int, err error)
