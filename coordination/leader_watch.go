package coordination

// watch is a one-shot wish of a session to hear of a change of a semaphore (§4.1), addressed by the describe
// that installed it.
type watch struct {
	session        *ledSession
	semaphore      SemaphoreID
	sequence       Sequence
	data, owners   bool
	previous, next *watch
}

// watchList is all watches on one semaphore, in the order in which they were installed.
type watchList struct {
	first, last *watch
}

// watch installs a watch. The one that the session already had on the semaphore is notified and replaced.
func (l *Leader) watch(s *ledSession, semaphore SemaphoreID, sequence Sequence, r *Request) {
	if old := s.watches[semaphore]; old != nil {
		l.fire(old, false, false)
	}
	w := &watch{session: s, semaphore: semaphore, sequence: sequence, data: r.WatchData,
		owners: r.WatchOwners}
	if s.watches == nil {
		s.watches = make(map[SemaphoreID]*watch)
	}
	s.watches[semaphore] = w
	list := s.node.watches[semaphore]
	if list == nil {
		list = &watchList{}
		s.node.watches[semaphore] = list
	}
	w.previous = list.last
	if list.last == nil {
		list.first = w
	} else {
		list.last.next = w
	}
	list.last = w
	l.watches++
}

// Watches is the number of watches.
func (l *Leader) Watches() int { return l.watches }

// notify fires the watches that want to know of a change. The pair in the message is that of the event,
// whatever the watch asked for.
func (l *Leader) notify(n *ledNode, e *Effect) {
	list := n.watches[e.Semaphore]
	if list == nil {
		return
	}
	for w := list.first; w != nil; {
		next := w.next
		if e.DataChanged && w.data || e.OwnersChanged && w.owners {
			l.fire(w, e.DataChanged, e.OwnersChanged)
		}
		w = next
	}
}

func (l *Leader) fire(w *watch, data, owners bool) {
	w.remove()
	l.watches--
	l.send(w.session.attachment, Message{Kind: MessageChanged, Sequence: w.sequence, DataChanged: data,
		OwnersChanged: owners})
}

func (w *watch) remove() {
	n := w.session.node
	list := n.watches[w.semaphore]
	if w.previous == nil {
		list.first = w.next
	} else {
		w.previous.next = w.next
	}
	if w.next == nil {
		list.last = w.previous
	} else {
		w.next.previous = w.previous
	}
	if list.first == nil {
		delete(n.watches, w.semaphore)
	}
	delete(w.session.watches, w.semaphore)
}
