package coordination

// The data of a persistent semaphore has a version, which grows by one with each change, the time of the last
// change, and its author. A new semaphore begins above every version that any semaphore of the state has had,
// so a version that was read from one never fits another that has its name now. BeginLineage lifts the versions
// that are given out from then on above those that were given out and lost.

// MaxAuthorBytes bounds the part of an author's name that a semaphore keeps: the charge of its row covers it.
const MaxAuthorBytes = 128

// maxAuthors bounds the names that are kept to be shared.
const maxAuthors = 1024

// versions gives out versions.
type versions struct {
	// next is the version of the next new semaphore; 0: changes do not count yet, because a server was there
	// that cannot read of it (Entry.Versions).
	next    uint64
	authors map[string]string // so that semaphores of one author share the name
}

// count makes changes count from now on. Semaphores that are there already have version 1.
func (v *versions) count(semaphores int) {
	switch {
	case v.next != 0:
	case semaphores > 0:
		v.next = 2
	default:
		v.next = 1
	}
}

// give returns a version that is at least so high, and above the floor.
func (v *versions) give(least, floor uint64) uint64 {
	given := max(least, floor+1)
	v.next = max(v.next, given+1)
	return given
}

func (v *versions) share(name string) string {
	name = name[:min(len(name), MaxAuthorBytes)]
	if known, found := v.authors[name]; found {
		return known
	}
	if v.authors == nil || len(v.authors) == maxAuthors {
		v.authors = make(map[string]string)
	}
	v.authors[name] = name
	return name
}

// dataChange is a change of data: a version, when it came by the stamp of its entry, and who made it.
type dataChange struct {
	version, millis uint64
	author          string
	clock           uint64 // the log clock then; 0: unknown. It is not stored
}
