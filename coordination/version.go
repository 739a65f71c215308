package coordination

// WatchMark is what a watch saw of its semaphore when it was installed, so that a new leader can tell whether there is
// something to notify of.
type WatchMark struct {
	Semaphore SemaphoreID
	Index     Index // of the state that the describe showed
}

// changes is where in the log a semaphore last changed in a way that watches may want to know. It is not stored: a
// machine that was read from a checkpoint takes every semaphore for changed then.
type changes struct {
	data, owners Index
}

// changed tells of a change of a semaphore (§4.1).
func (m *Machine) changed(n *node, sem *semaphore, e Effect) {
	if e.DataChanged {
		sem.changes.data = m.index
	}
	if e.OwnersChanged {
		sem.changes.owners = m.index
	}
	e.Kind, e.Node, e.Semaphore = EffectChanged, n.id, sem.id
	m.emit(e)
}

// unchanged reports whether the watch that r installed has certainly nothing to be told yet.
func (m *Machine) unchanged(sem *semaphore, mark WatchMark, r *Request) bool {
	return sem.id == mark.Semaphore && mark.Index >= m.restored &&
		(!r.WatchData || sem.changes.data <= mark.Index) && (!r.WatchOwners || sem.changes.owners <= mark.Index)
}
