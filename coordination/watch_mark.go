package coordination

// changed records and reports a change of a semaphore (§4.1).
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

// unchanged reports whether the watch that r installed has certainly nothing to notify yet.
func (m *Machine) unchanged(sem *semaphore, mark WatchMark, r *Request) bool {
	return sem.id == mark.Semaphore && mark.At.Compare(Position{m.restored, endOfEntry}) >= 0 &&
		(!r.WatchData || sem.changes.data.Compare(mark.At) <= 0) &&
		(!r.WatchOwners || sem.changes.owners.Compare(mark.At) <= 0)
}
