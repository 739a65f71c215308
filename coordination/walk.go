package coordination

// walk visits the machine's nodes, their sessions and the links of these, in the order in which they were
// made, while commands change the machine between two steps. It visits once each of them that existed when it began and
// still does when the walk comes to it; it may visit some of those made since. There is one walk at a time: the next
// ends it.
type walk struct {
	machine *Machine
	node    *node    // in which it stands; nil once it is over
	session *session // to be visited next, or whose links are; nil behind the last one of node
	link    *link    // of session, to be visited next, or nil
	// graces are the grace periods, as they were when the walk began, of nodes that were altered since.
	graces map[NodeID]uint64
}

// beginWalk begins a walk over the present state.
func (m *Machine) beginWalk() *walk {
	if m.walk != nil {
		m.walk.enter(nil)
	}
	w := &walk{machine: m, graces: make(map[NodeID]uint64)}
	m.walk = w
	w.enter(m.inOrder.first)
	return w
}

// enter stands the walk before the first session of a node. Without a node it is over.
func (w *walk) enter(n *node) {
	if w.node != nil {
		w.node.walk = nil
	}
	w.node, w.session, w.link = n, nil, nil
	if n == nil {
		w.machine.walk = nil
		return
	}
	n.walk, w.session = w, n.inOrder.first
}

func (w *walk) over() bool { return w.node == nil }

// step visits a link, or a session, or the end of a node, and goes on behind it. The walk must not be over.
func (w *walk) step() (n *node, s *session, l *link) {
	n, s, l = w.node, w.session, w.link
	switch {
	case l != nil:
		w.pass(l)
	case s == nil:
		w.enter(n.place.next)
	case s.links.first != nil:
		w.link = s.links.first
	default:
		w.session = s.place.next
	}
	return n, s, l
}

// pass goes on behind the link before which the walk stands.
func (w *walk) pass(l *link) {
	if w.link = l.nextOfSession; w.link == nil {
		w.session = w.session.place.next
	}
}

// graceMillis is the effective grace period that a node had when the walk began.
func (w *walk) graceMillis(n *node) uint64 {
	if before, altered := w.graces[n.id]; altered {
		return before
	}
	return n.config.EffectiveGraceMillis()
}

// The machine calls these before what they say happens. There need not be a walk.

func (w *walk) altering(n *node) {
	if w != nil {
		w.graces[n.id] = w.graceMillis(n)
	}
}

func (w *walk) dropping(n *node) {
	if w != nil {
		w.enter(n.place.next)
	}
}

func (w *walk) endingSession(s *session) {
	if w != nil && w.session == s {
		w.session = s.place.next
	}
}

func (w *walk) removing(l *link) {
	if w != nil && w.link == l {
		w.pass(l)
	}
}
