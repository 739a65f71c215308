package coordination

import "github.com/coordd/coordd/scheme/outcome"

// Refusals of what must not be written at present. A stream ends with them: SDKs overlook a bad status in a
// result, and would take the lock for acquired.
var (
	// DiskFull refuses what would take more of a disk that is nearly full.
	DiskFull = &Refusal{Status: outcome.Unavailable, Text: "The disk of the leading server is nearly full"}
	// NotYetReadable refuses a command that an older server of the cluster would not be able to read.
	NotYetReadable = &Refusal{Status: outcome.Unavailable,
		Text: "Unsupported until every server of the cluster is upgraded"}
	// ReadabilityUnknown refuses a command of which it is not known whether every server can read it: one has not
	// announced it, as when the cluster has just been started.
	ReadabilityUnknown = &Refusal{Status: outcome.Unavailable,
		Text: "It is not known yet whether every server of the cluster can read this: one has not told"}
)

// Formats is which commands a program can read.
type Formats struct {
	// Version is the newest version of commands that it knows.
	Version uint64
	// Since says with which version a command came.
	Since func(Command) uint64
}

// admission is which commands may be written at present.
type admission struct {
	formats Formats
	// version of the newest commands that every server of the cluster can read, 0: not yet known
	readable uint64
	crowded  bool // only what makes the state smaller
}

// Admit sets which commands may be written from now on: those up to version readable, which every server of the cluster
// can read, or while that is not known, which is 0, those of the first version, which all programs can read; and, if
// crowded, only those that make the state smaller: the reserve of the disk is for them.
func (r *Replica[S, W]) Admit(readable uint64, crowded bool) {
	r.admission.readable, r.admission.crowded = readable, crowded
	if r.leader != nil {
		r.admit(r.leader)
	}
}

// admit has a leader leave out what not every server can read.
func (r *Replica[S, W]) admit(l *Leader) {
	l.ages.unreadable = !r.admission.isReadable(provesTime)
	l.clientless = !r.admission.isReadable(namesClient)
}

// restricted reports whether there is any command that is refused.
func (a *admission) restricted() bool { return a.readable < a.formats.Version || a.crowded }

// refusalOf is why a command must not be written at present, nil if it may.
func (a *admission) refusalOf(c Command) *Refusal {
	switch {
	case !a.isReadable(c) && a.readable == 0:
		return ReadabilityUnknown
	case !a.isReadable(c):
		return NotYetReadable
	case a.crowded && !shrinks(c):
		return DiskFull
	}
	return nil
}

// isReadable reports whether it is known that every server of the cluster can read a command.
func (a *admission) isReadable(c Command) bool {
	return a.readable >= a.formats.Version || a.formats.Since(c) <= max(1, a.readable)
}

// These are commands that say more than every version of the program can read. Until all can, that is left
// out: outcomes are remembered for longer, new sessions have no owner, nothing ages, and no event has the client of
// a session that ended.
var (
	acknowledges = &ReleaseSemaphore{Origin: Origin{Answered: 1}}
	namesOwner   = &Attach{Identity: Identity{Kind: IdentityUser}}
	provesTime   = &Age{}
	namesClient  = &ExpireSession{Client: Client{SilentMillis: 1}}
)

// shrinks reports whether a command makes the state smaller, or is needed for one that does.
func shrinks(c Command) bool {
	switch c := c.(type) {
	case *Attach:
		return c.Session != 0
	case *ReleaseSemaphore, *DeleteSemaphore, *StopSession, *DropNode, *RemoveDirectory, *RemoveUser,
		*EndSession, *RemoveSemaphore:
		return true
	}
	return false
}

// requestCommands maps requests of a stream to commands; a describe has no command.
var requestCommands = map[RequestKind]Command{
	RequestAcquire: &AcquireSemaphore{},
	RequestRelease: &ReleaseSemaphore{},
	RequestCreate:  &CreateSemaphore{},
	RequestUpdate:  &UpdateSemaphore{},
	RequestDelete:  &DeleteSemaphore{},
	RequestStop:    &StopSession{},
}

// turnAway ends a stream whose message would become a refused command, and reports whether it did. There is a leader.
func (r *Replica[S, W]) turnAway(now Instant, stream StreamID, sink S, f *Forward) bool {
	var command Command
	switch {
	case f.Attach != nil:
		command = &Attach{Session: f.Attach.Session}
	case f.Request != nil:
		command = requestCommands[f.Request.Kind]
	}
	if command == nil {
		return false
	}
	refusal := r.admission.refusalOf(command)
	if refusal == nil {
		return false
	}
	r.sinks[stream] = sink
	r.leader.TurnAway(now, stream, refusal)
	return true
}
