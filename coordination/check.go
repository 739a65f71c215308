package coordination

import (
	"errors"
	"fmt"
	"math"
)

// Check verifies the invariants of the package comment over the whole state. It returns all that is broken,
// nil if nothing is.
func (m *Machine) Check() error {
	var broken []error
	if err := m.tree.Check(); err != nil {
		broken = append(broken, err)
	}
	if err := m.accounts.Check(m.at().ofAccounts()); err != nil {
		broken = append(broken, err)
	}
	inTree := 0
	used := MachineRow{}.sized()
	var counts Counts
	for entry := range m.tree.All() {
		if entry.Node == 0 {
			continue
		}
		inTree++
		n := m.nodes[entry.Node]
		if n == nil {
			broken = append(broken, fmt.Errorf("path entry %d names coordination node %d, which is not there",
				entry.ID, entry.Node))
			continue
		}
		if err := errors.Join(n.check(), n.checkVersions(&m.versions)); err != nil {
			broken = append(broken, fmt.Errorf("coordination node %d: %w", n.id, err))
		}
		used += n.used
		counts.add(n.counts, 1)
		if n.id >= m.nextNode {
			broken = append(broken, fmt.Errorf("coordination node %d is not below the next id %d", n.id,
				m.nextNode))
		}
	}
	if used != m.room.used {
		broken = append(broken, fmt.Errorf("the rows of the machine and its nodes count %d bytes, it says %d",
			used, m.room.used))
	}
	if counts != m.room.counts {
		broken = append(broken, fmt.Errorf("the nodes count %+v, the machine says %+v", counts,
			m.room.counts))
	}
	if bytes := accountsBytes(m.accounts); bytes != m.accountBytes {
		broken = append(broken, fmt.Errorf("the rows of users and keys count %d bytes, it says %d", bytes,
			m.accountBytes))
	}
	broken = append(broken, m.checkQuotas()...)
	chained, last := 0, NodeID(0)
	for n := m.inOrder.first; n != nil && chained <= len(m.nodes); n = n.place.next {
		if chained++; n.id <= last || m.nodes[n.id] != n {
			broken = append(broken, fmt.Errorf("coordination node %d is out of order", n.id))
		}
		last = n.id
	}
	if chained != len(m.nodes) {
		broken = append(broken, fmt.Errorf("%d coordination nodes, %d of them in their order", len(m.nodes),
			chained))
	}
	if inTree != len(m.nodes) {
		broken = append(broken, fmt.Errorf("%d coordination nodes, %d of them in the path tree", len(m.nodes),
			inTree))
	}
	return errors.Join(broken...)
}

func (n *node) check() error {
	var broken []error
	fail := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	linked, bytes := 0, uint64(0)
	counts := Counts{Nodes: 1, Sessions: len(n.sessions), Semaphores: len(n.semaphores)}
	used := n.row(n).sized()
	for _, l := range n.links {
		used += l.row(n).sized()
	}
	for name, sem := range n.semaphores {
		bytes += sem.bytes()
		used += sem.row(n).sized()
		if name != sem.name || sem.id == 0 || sem.id >= n.nextSemaphore {
			fail("semaphore %d %q is filed under %q, next id %d", sem.id, sem.name, name, n.nextSemaphore)
		}
		linked += sem.owners.length + sem.waiters.length
		counts.Owners += sem.owners.length
		counts.Waiters += sem.waiters.length
		n.checkSemaphore(sem, fail)
	}
	if linked != len(n.links) {
		fail("%d links in the semaphores' lists, %d in the table", linked, len(n.links))
	}
	held := 0
	for id, s := range n.sessions {
		used += s.row(n).sized()
		if id != s.id || id == 0 || id >= n.nextSession {
			fail("session %d is filed under %d, next id %d", s.id, id, n.nextSession)
		}
		if s.nonce != 0 && n.nonces[s.nonce] != id {
			fail("session %d is not found by its nonce", id)
		}
		last, length := OrderID(0), uint64(0)
		for l := s.links.first; l != nil; l = l.nextOfSession {
			held++
			length++
			if l.session != s || l.order <= last || n.links[l.key()] != l {
				fail("session %d has link %d out of order or not its own", s.id, l.order)
			}
			last = l.order
			bytes += uint64(len(l.data))
		}
		if length != s.links.length {
			fail("session %d has %d links, it says %d", s.id, length, s.links.length)
		}
	}
	chained, last := 0, SessionID(0)
	for s := n.inOrder.first; s != nil && chained <= len(n.sessions); s = s.place.next {
		if chained++; s.id <= last || n.sessions[s.id] != s {
			fail("session %d is out of order", s.id)
		}
		last = s.id
	}
	if chained != len(n.sessions) {
		fail("%d sessions, %d of them in their order", len(n.sessions), chained)
	}
	checkShelf(&n.listed, len(n.sessions), fail, func(s *session) bool { return n.sessions[s.id] == s })
	checkShelf(&n.named, len(n.semaphores), fail,
		func(s *semaphore) bool { return n.semaphores[s.name] == s })
	for path, r := range n.resources {
		bytes += r.bytes()
		used += r.row(n).sized()
		n.checkResource(path, r, fail)
	}
	checkShelf(&n.listedResources, len(n.resources), fail,
		func(r *resource) bool { return n.resources[r.path] == r })
	if bytes != n.bytes {
		fail("%d bytes are stored, it says %d", bytes, n.bytes)
	}
	if counts != n.counts {
		fail("there are %+v, it says %+v", counts, n.counts)
	}
	if used != n.used {
		fail("the rows count %d bytes, it says %d", used, n.used)
	}
	if held != len(n.links) {
		fail("%d links in the sessions' lists, %d in the table", held, len(n.links))
	}
	return errors.Join(broken...)
}

func (n *node) checkVersions(v *versions) error {
	for _, sem := range n.semaphores {
		c := sem.change
		if c.version > 0 && (sem.ephemeral || c.version >= v.next) || c.version == 0 && c != (dataChange{}) ||
			len(c.author) > MaxAuthorBytes {
			return fmt.Errorf("semaphore %q has %+v, the next version is %d", sem.name, c, v.next)
		}
	}
	return nil
}

func (n *node) checkSemaphore(sem *semaphore, fail func(string, ...any)) {
	last, held := OrderID(0), uint64(0)
	walk := func(list *linkList, owner bool) {
		length, bytes := 0, uint64(0)
		for l := list.first; l != nil; l = l.next {
			length++
			bytes += uint64(len(l.data))
			if l.order <= last || l.order >= n.nextOrder || l.owner != owner || l.semaphore != sem ||
				n.sessions[l.session.id] != l.session {
				fail("semaphore %q has link %d in the wrong place", sem.name, l.order)
			}
			if owner {
				held += l.count
			}
			if l.count == 0 || l.count > sem.limit {
				fail("semaphore %q has link %d with count %d, limit %d", sem.name, l.order, l.count,
					sem.limit)
			}
			last = l.order
		}
		if length != list.length {
			fail("semaphore %q has a list of %d links that says %d", sem.name, length, list.length)
		}
		if bytes != list.bytes {
			fail("semaphore %q has a list with %d bytes of data that says %d", sem.name, bytes, list.bytes)
		}
		if err := list.checkPieces(); err != nil {
			fail("semaphore %q: %w", sem.name, err)
		}
	}
	walk(&sem.owners, true)
	walk(&sem.waiters, false)
	switch first := sem.waiters.first; {
	case held != sem.held || held > sem.limit:
		fail("semaphore %q has owners with %d tokens, says %d, limit %d", sem.name, held, sem.held, sem.limit)
	case first != nil && first.count <= sem.free():
		fail("semaphore %q keeps link %d waiting although it fits", sem.name, first.order)
	case sem.ephemeral && sem.owners.first == nil:
		fail("ephemeral semaphore %q has no owner", sem.name)
	}
}

func (n *node) checkResource(path string, r *resource, fail func(string, ...any)) {
	parent, below := parentPath(path)
	if path != r.path || r.id == 0 || r.id >= n.nextResource || (r.parent != nil) != below || below &&
		n.resources[parent] != r.parent {
		fail("resource %d %q is filed under %q, next id %d", r.id, r.path, path, n.nextResource)
	}
	top := Effective{Rate: math.MaxFloat64}
	if r.parent != nil {
		top = r.parent.effective
	}
	if e := r.effective; !(e.Rate > 0 && e.Rate <= top.Rate) || !(e.Watermark > 0 && e.Watermark <= 1) {
		fail("resource %q has %+v below %+v", path, e, top)
	}
	for child := r.children.first; child != nil; child = child.place.next {
		if child.parent != r || n.resources[child.path] != child {
			fail("resource %q has the child %q, which is not its own", path, child.path)
		}
	}
}

// checkPieces compares what a long list keeps for descriptions with its links.
func (ll *linkList) checkPieces() error {
	if ll.pieces == nil {
		if ll.length > maxWalk {
			return fmt.Errorf("a list of %d links has no pieces", ll.length)
		}
		return nil
	}
	l, before := ll.first, pieceLinks
	for at, x := range ll.pieces.list {
		if n := len(x.links); n == 0 || n > pieceLinks || n+before <= pieceLinks/2 {
			return fmt.Errorf("piece %d has %d links behind one of %d", at, n, before)
		}
		before = len(x.links)
		for i := range x.links {
			if l == nil || !x.links[i].equals(l.described()) {
				return fmt.Errorf("piece %d shows link %d out of order or as it was", at, x.links[i].Order)
			}
			l = l.next
		}
	}
	if l != nil {
		return fmt.Errorf("link %d is in no piece", l.order)
	}
	return nil
}

func (d *LinkDescription) equals(other LinkDescription) bool {
	return d.Order == other.Order && d.Session == other.Session && d.TimeoutMillis == other.TimeoutMillis &&
		d.Count == other.Count && string(d.Data) == string(other.Data)
}

// checkShelf looks whether a shelf has what it is to have, in order, and in no more blocks than it may.
func checkShelf[E numbered](s *shelf[E], want int, fail func(string, ...any), belongs func(E) bool) {
	count, last, before := 0, uint64(0), shelfBlock
	for at, block := range s.blocks {
		if len(block)+before <= shelfBlock/2 || len(block) == 0 && at < len(s.blocks)-1 {
			fail("block %d of a shelf has %d elements behind one of %d", at, len(block), before)
		}
		before = len(block)
		for _, e := range block {
			if count++; e.number() <= last || !belongs(e) {
				fail("%T %d is out of order on its shelf, or not to be there", e, e.number())
			}
			last = e.number()
		}
	}
	if count != want {
		fail("%d elements on a shelf, want %d", count, want)
	}
}

// Check verifies the invariants of the machine and, where this server leads, of its leader.
func (r *Replica[S, W]) Check() error {
	if err := r.machine.Check(); err != nil || r.leader == nil {
		return err
	}
	return r.leader.check()
}

// check verifies that watches, and requests that wait, are only of sessions that streams have.
func (l *Leader) check() error {
	watches, listed := 0, 0
	for id, n := range l.nodes {
		if l.machine.nodes[id] != n.node {
			return fmt.Errorf("the leader knows a coordination node %d that is not there", id)
		}
		for _, s := range n.sessions {
			if err := l.checkSession(n, s); err != nil {
				return fmt.Errorf("session %d of coordination node %d: %w", s.id, id, err)
			}
			watches += len(s.watches)
		}
		for _, list := range n.watches {
			for w := list.first; w != nil; w = w.next {
				if listed++; w.session.watches[w.semaphore] != w || n.sessions[w.session.id] != w.session {
					return fmt.Errorf("session %d of coordination node %d is not there for its watch",
						w.session.id, id)
				}
			}
		}
	}
	if watches != l.watches || listed != l.watches {
		return fmt.Errorf("sessions have %d watches, %d are listed, the leader says %d", watches, listed, l.watches)
	}
	return nil
}

func (l *Leader) checkSession(n *ledNode, s *ledSession) error {
	a := s.attachment
	switch {
	case n.node.sessions[s.id] == nil:
		return errors.New("it is not there")
	case a == nil && len(s.watches) > 0:
		return errors.New("it is detached, and has watches")
	case a == nil:
		return nil
	case a.session != s || l.streams[a.stream] != a:
		return errors.New("its stream does not have it")
	case s.countdown != nil:
		return errors.New("it has a stream, and runs out")
	case a.held != nil || len(a.later) > 0 && a.reads == 0:
		return errors.New("requests of its stream wait for nothing")
	}
	return nil
}
