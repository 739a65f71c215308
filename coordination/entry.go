package coordination

import (
	"fmt"
	"math"
)

// Entry is one entry of the replicated log: the commands of one turn of its leader, or some of them, in their
// order. An entry is there as a whole or not at all, and everybody executes it as a whole; what comes of its
// commands is the same as if each had an entry of its own. Checkpoints, digests, lineages and reads exist
// between entries only.
type Entry struct {
	Index Index
	Term  Term // in which it was written
	// StampMillis is the leader's time of day when it wrote the entry, in milliseconds since 1970; 0: it did
	// not say. It never goes back from entry to entry (Replica.Stamp). It is kept to be shown, and nothing is
	// decided by it.
	StampMillis uint64
	// ServedMillis is for how long the leader had served when it wrote the entry, by a clock that nobody
	// sets: since it applied the first entry of its term. It never goes back within a term; 0 proves nothing.
	// See logClock.
	ServedMillis uint64
	// Versions makes changes of data count from here on: every server of the cluster can read their versions.
	Versions bool
	Commands []Command // none where the leader wrote only to say that it leads
}

// endOfEntry is behind all commands of an entry.
const endOfEntry Place = math.MaxUint32

// Alone reports whether a command must have an entry of its own: what it does is done at the end of an entry.
func Alone(c Command) bool {
	switch c.(type) {
	case *BeginLineage, *Mark:
		return true
	}
	return false
}

// check panics if the entry breaks the rules for its writers.
func (e *Entry) check() {
	if len(e.Commands) > MaxEntryCommands {
		panic(fmt.Sprintf("coordination: entry %d has %d commands", e.Index, len(e.Commands)))
	}
	for _, c := range e.Commands {
		if len(e.Commands) > 1 && Alone(c) {
			panic(fmt.Sprintf("coordination: in entry %d a %T is not alone", e.Index, c))
		}
	}
}
