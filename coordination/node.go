package coordination

import "github.com/coordd/coordd/scheme"

// node is one coordination node as the machine holds it: the durable state of §0.2.
type node struct {
	id     NodeID
	path   scheme.Path // never changes
	config NodeConfig
	// history selects what servers remember of former data.
	history History
	rows    *rowTracker // the machine's
	room    *room       // the same
	mark    rowMark
	base    uint64 // sum of the hashes of this node's stored rows
	// droppedIn is the checkpoint generation in which the node was dropped, 0 while it lives.
	droppedIn uint32

	// bytes counts against StateLimits.NodeBytes: the names and data of the semaphores and the data of the links.
	bytes uint64
	used  uint64 // what the node's rows count, its own included
	// quotas are those of the node and of what is above it, the nearest first.
	quotas []*scheme.Account
	// counts is the node's part of Machine.Counts.
	counts Counts

	nextSession   SessionID
	nextSemaphore SemaphoreID
	nextOrder     OrderID
	nextResource  ResourceID // 0: the node never had one

	sessions   map[SessionID]*session
	inOrder    chain[*session] // the same, ascending by id
	semaphores map[string]*semaphore
	listed     shelf[*session]   // the same, to go on with from any id
	named      shelf[*semaphore] // the same as semaphores, by id
	links      map[linkKey]*link
	nonces     map[uint64]SessionID // of the sessions that were made under one

	resources       map[string]*resource // by path
	listedResources shelf[*resource]     // the same, by id

	place neighbours[*node] // in Machine.inOrder
	walk  *walk             // that stands in the node, or nil

	spare      *link // links that may be used again, chained by next; saves an allocation for each acquire
	spareCount int
}

// maxSpareLinks bounds what a node keeps for later after many links are gone.
const maxSpareLinks = 1024

func newNode(id NodeID, config NodeConfig, rows *rowTracker, room *room) *node {
	n := &node{
		id: id, config: config, rows: rows, room: room,
		nextSession: 1, nextSemaphore: 1, nextOrder: 1,
		sessions:   make(map[SessionID]*session),
		semaphores: make(map[string]*semaphore),
		links:      make(map[linkKey]*link),
		nonces:     make(map[uint64]SessionID),
	}
	n.use(NodeRow{}.sized())
	n.count(Counts{Nodes: 1}, 1)
	return n
}

// session is a client's claim to its semaphores. Whether a stream is attached is the leader's knowledge.
type session struct {
	id            SessionID
	timeoutMillis uint64
	description   string
	protectionKey string
	attachEpoch   Epoch  // of the last attach that went through the log
	attachPlace   uint64 // where that came from; not stored, 0 if it is not known
	nonce         uint64
	beganMillis   uint64   // Machine.stampMillis when the session was made
	owner         Identity // who made the session, the zero one if nobody was asked
	absence       absence
	links         sessionLinks
	mark          rowMark
	memory        memory               // not stored
	place         neighbours[*session] // in node.inOrder
}

func (n *node) beside() *neighbours[*node]       { return &n.place }
func (s *session) beside() *neighbours[*session] { return &s.place }

// semaphore holds its owners and its queue, each in ascending order id. Grants are strictly first in, first
// out, so appending keeps both lists sorted.
type semaphore struct {
	id        SemaphoreID
	name      string
	data      []byte // never changed in place: replaced
	limit     uint64
	held      uint64 // sum of the owners' counts
	ephemeral bool
	owners    linkList
	waiters   linkList
	mark      rowMark
	change    dataChange // the last one of the data, of a persistent semaphore
	changes   changes    // not stored
}

func (s *semaphore) free() uint64 { return s.limit - s.held }

// bytes is the semaphore's own part of its node's bytes; its links count apart.
func (s *semaphore) bytes() uint64 { return uint64(len(s.name) + len(s.data)) }

type linkKey struct {
	session   SessionID
	semaphore SemaphoreID
}

// link ties a session to a semaphore, as owner or as waiter. There is at most one for each pair.
type link struct {
	session       *session
	semaphore     *semaphore
	order         OrderID
	count         uint64
	timeoutMillis uint64 // as asked for; an owner's is shown as 0
	data          []byte // never changed in place: replaced
	address       Address
	waitEpoch     Position // of the acquire that last set the wait
	owner         bool
	beganMillis   uint64 // Machine.stampMillis when it became what it is, owner or waiter
	since         uint64 // of a waiter that does not wait for ever: the log clock at waitEpoch
	mark          rowMark

	previous, next                   *link // in the semaphore's list
	previousOfSession, nextOfSession *link
}

func (l *link) key() linkKey { return linkKey{l.session.id, l.semaphore.id} }

// linkList is a semaphore's list of owners or of waiters, in ascending order id.
type linkList struct {
	first, last *link
	length      int
	bytes       uint64  // of the links' data
	pieces      *pieces // nil of a list that is short enough to be walked over
}

func (ll *linkList) append(l *link) {
	l.previous, l.next = ll.last, nil
	if ll.last == nil {
		ll.first = l
	} else {
		ll.last.next = l
	}
	ll.last = l
	ll.length++
	ll.bytes += uint64(len(l.data))
	switch {
	case ll.pieces != nil:
		ll.pieces.append(l)
	case ll.length > maxWalk:
		ll.pieces = piecesOf(ll)
	}
}

func (ll *linkList) remove(l *link) {
	if l.previous == nil {
		ll.first = l.next
	} else {
		l.previous.next = l.next
	}
	if l.next == nil {
		ll.last = l.previous
	} else {
		l.next.previous = l.previous
	}
	l.previous, l.next = nil, nil
	ll.length--
	ll.bytes -= uint64(len(l.data))
	switch {
	case ll.pieces == nil:
	case ll.length < maxWalk/2: // not at maxWalk, because it may grow again
		ll.pieces = nil
	default:
		ll.pieces.remove(l)
	}
}

// sessionLinks is everything a session owns or waits for, in ascending order id.
type sessionLinks struct {
	first, last *link
	length      uint64
}

func (sl *sessionLinks) append(l *link) {
	l.previousOfSession, l.nextOfSession = sl.last, nil
	if sl.last == nil {
		sl.first = l
	} else {
		sl.last.nextOfSession = l
	}
	sl.last = l
	sl.length++
}

func (sl *sessionLinks) remove(l *link) {
	if l.previousOfSession == nil {
		sl.first = l.nextOfSession
	} else {
		l.previousOfSession.nextOfSession = l.nextOfSession
	}
	if l.nextOfSession == nil {
		sl.last = l.previousOfSession
	} else {
		l.nextOfSession.previousOfSession = l.previousOfSession
	}
	l.previousOfSession, l.nextOfSession = nil, nil
	sl.length--
}

// find returns the session's link to the semaphore, or nil.
func (n *node) find(s *session, sem *semaphore) *link {
	return n.links[linkKey{s.id, sem.id}]
}

// insert makes a link with a fresh order id. It hangs in its session's list, and in neither of the
// semaphore's yet.
func (n *node) insert(s *session, sem *semaphore) *link {
	l := n.spare
	if l == nil {
		l = new(link)
	} else {
		n.spare = l.next
		n.spareCount--
		l.next = nil
	}
	n.touch(n)
	l.session, l.semaphore, l.order = s, sem, n.nextOrder
	n.nextOrder++
	n.links[l.key()] = l
	s.links.append(l)
	n.use(l.sized())
	n.touch(l)
	return l
}

// remove takes a link out of all lists.
func (n *node) remove(l *link) {
	n.walk.removing(l)
	sem := l.semaphore
	if l.owner {
		sem.owners.remove(l)
		sem.held -= l.count
		n.count(Counts{Owners: 1}, -1)
	} else {
		sem.waiters.remove(l)
		n.count(Counts{Waiters: 1}, -1)
	}
	l.session.links.remove(l)
	delete(n.links, l.key())
	n.bytes -= uint64(len(l.data))
	n.free(l.sized())
	if n.removed(l) && n.spareCount < maxSpareLinks {
		*l = link{next: n.spare}
		n.spare = l
		n.spareCount++
	}
}

// list is the list of its semaphore that the link hangs in, nil if it hangs in none.
func (l *link) list() *linkList {
	switch {
	case l.owner:
		return &l.semaphore.owners
	case l.previous != nil || l.semaphore.waiters.first == l:
		return &l.semaphore.waiters
	}
	return nil
}

// setData gives a link other data. The caller has touched it, and has made all its other changes.
func (n *node) setData(l *link, data []byte) {
	grown := uint64(len(data)) - uint64(len(l.data)) // modulo 2^64, as are the sums: it may shrink
	n.bytes += grown
	n.use(grown)
	l.data = data
	list := l.list()
	if list == nil {
		return
	}
	list.bytes += grown
	if list.pieces != nil {
		list.pieces.update(l)
	}
}

// makeOwner moves a link that hangs in no list of its semaphore to the owners.
func (n *node) makeOwner(l *link, stampMillis uint64) {
	n.touch(l)
	l.owner, l.beganMillis, l.since = true, stampMillis, 0
	l.semaphore.owners.append(l)
	l.semaphore.held += l.count
	n.count(Counts{Owners: 1}, 1)
}

// enqueue puts a link that hangs in no list of its semaphore at the end of the queue.
func (n *node) enqueue(l *link, stampMillis uint64) {
	n.touch(l)
	l.beganMillis = stampMillis
	l.semaphore.waiters.append(l)
	n.count(Counts{Waiters: 1}, 1)
}

func (n *node) addSemaphore(name string, limit uint64, data []byte, ephemeral bool) *semaphore {
	n.touch(n)
	sem := &semaphore{id: n.nextSemaphore, name: name, limit: limit, data: data, ephemeral: ephemeral}
	n.nextSemaphore++
	n.semaphores[name] = sem
	n.named.append(sem)
	n.bytes += sem.bytes()
	n.use(sem.sized())
	n.count(Counts{Semaphores: 1}, 1)
	n.touch(sem)
	return sem
}

// setSemaphoreData gives a semaphore other data. The caller has touched it.
func (n *node) setSemaphoreData(sem *semaphore, data []byte, change dataChange) {
	before := sem.bytes()
	n.free(before)
	n.bytes -= before
	sem.data, sem.change = data, change
	n.use(sem.bytes())
	n.bytes += sem.bytes()
}

func (n *node) removeSemaphore(sem *semaphore) {
	delete(n.semaphores, sem.name)
	n.named.remove(sem)
	n.bytes -= sem.bytes()
	n.free(sem.sized())
	n.count(Counts{Semaphores: 1}, -1)
	n.removed(sem)
}

func (n *node) addSession(c *Attach, stampMillis uint64) *session {
	n.touch(n)
	s := &session{id: n.nextSession, timeoutMillis: c.TimeoutMillis, description: c.Description,
		protectionKey: c.ProtectionKey, attachEpoch: c.Epoch, attachPlace: c.Place, nonce: c.Nonce,
		beganMillis: stampMillis, owner: c.Identity}
	n.nextSession++
	n.hold(s)
	n.use(s.sized())
	n.touch(s)
	return s
}

// hold makes a session one of the node's.
func (n *node) hold(s *session) {
	n.sessions[s.id] = s
	n.inOrder.append(s)
	n.listed.append(s)
	n.name(s)
	n.count(Counts{Sessions: 1}, 1)
}

// name makes a session findable by its nonce.
func (n *node) name(s *session) {
	if s.nonce != 0 {
		n.nonces[s.nonce] = s.id
	}
}

func (n *node) removeSession(s *session) {
	n.walk.endingSession(s)
	n.inOrder.remove(s)
	n.listed.remove(s)
	delete(n.sessions, s.id)
	delete(n.nonces, s.nonce)
	n.free(s.sized())
	n.count(Counts{Sessions: 1}, -1)
	n.removed(s)
}

// acceptsIdentity reports whether a stream of this identity may have the session: its owner may, and others
// by its key, if it has one, which was compared before, or by the right to write.
func (s *session) acceptsIdentity(who Identity, mayWrite bool) bool {
	return s.owner == Identity{} || s.owner == who || s.protectionKey != "" || mayWrite
}

// changes is where in the log a semaphore last changed in a way that watches may want to know. It is not
// stored: a machine that was read from a checkpoint takes every semaphore for changed then.
type changes struct {
	data, owners Position
}
