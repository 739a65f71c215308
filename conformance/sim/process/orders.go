package process

import (
	"encoding/json"
	"syscall"

	"github.com/coordd/coordd/conformance/sim/disk"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/raftstore"
)

// Variable is the environment variable that holds the Setup as JSON.
const Variable = "COORDD_SIM_PROCESS"

// Setup holds settings of the program that are no flags of `coordd serve`.
type Setup struct {
	// Gateway is the address to dial for a connection to any other one: the program sends that address and a line
	// break, and gets one byte once the connection is made.
	Gateway string
	Journal string      // the file that executed entries are appended to
	Limits  plan.Limits // of the log and the state
	Version int         // newest version of commands that it reads; 0: the program's own
}

// Environment returns the variable with its value.
func (s *Setup) Environment() (string, error) {
	text, err := json.Marshal(s)
	return Variable + "=" + string(text), err
}

// Apply sets the limits of a log.
func Apply(l *plan.Limits, c *raftstore.Config) {
	c.SegmentBytes, c.CheckpointCommands = l.SegmentBytes, l.CheckpointCommands
	c.TailEntriesKept, c.LagEntriesKept = l.TailEntries, l.LagEntries
	c.TailBytes = l.TailBytes
}

// Order is a line that the program reads from its standard input.
type Order struct {
	Faults *disk.Faults `json:",omitempty"` // of the disk from now on
	Count  *Count       `json:",omitempty"` // asks for a line "due" in the place of an operation
	Answer *Answer      `json:",omitempty"` // to such a line
}

// Count counts operations on files: the N-th write or sync from now on, or the N-th of one kind. 0 ends the count.
type Count struct {
	N    int64
	Only rt.Op
}

// Answer is the outcome of an operation that was due.
type Answer struct {
	Keep  int           // bytes of a write that fails that are written nevertheless
	Error syscall.Errno // 0: it happens
}
