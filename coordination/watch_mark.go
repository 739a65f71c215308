package coordination

// WatchMark is what a watch saw of its semaphore when it was installed, so that a new leader can tell whether
// there is something to notify of.
type WatchMark struct {
	Semaphore SemaphoreID
	// At is the last command whose consequences the describe showed. One that was answered between entries
	// has seen the last of them to its end; one that was answered within an entry, behind the writes that it
	// waited for, has not.
	At Position
}

// changes is where in the log a semaphore last changed in a way that watches may want to know. It is not
// stored: a machine that was read from a checkpoint takes every semaphore for changed then.
type changes struct {
	data, owners Position
}

// changed tells of a change of a semaphore (§4.1).
func (m *Machine) changed(n *node, sem *semaphore, e Effect) {
	if e.DataChanged {
		sem.changes.data = m.at()
	}
	if e.OwnersChanged {
		sem.changes.owners = m.at()
	}
	e.Kind, e.Node, e.Semaphore = EffectChanged, n.id, sem.id
	m.emit(e)
}

// unchanged reports whether the watch that r installed has certainly nothing to be told yet.
func (m *Machine) unchanged(sem *semaphore, mark WatchMark, r *Request) bool {
	return sem.id == mark.Semaphore && mark.At.Compare(Position{m.restored, endOfEntry}) >= 0 &&
		(!r.WatchData || sem.changes.data.Compare(mark.At) <= 0) &&
		(!r.WatchOwners || sem.changes.owners.Compare(mark.At) <= 0)
}
