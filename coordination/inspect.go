package coordination

import (
	"slices"
	"strings"

	"github.com/coordd/coordd/coordination/revisions"
	"github.com/coordd/coordd/scheme"
)

// InspectionKind selects the rows that an Inspection lists.
type InspectionKind uint8

// The kinds of inspections.
const (
	InspectNodes InspectionKind = iota
	InspectSemaphores
	InspectSessions
	InspectResources
)

// Inspection is a question about the coordination nodes at a path or below it.
type Inspection struct {
	Kind InspectionKind
	// Path is a coordination node, or a directory; empty: all there are.
	Path scheme.Path
	// Prefix is the beginning of the names of the listed semaphores; Exact, their whole name.
	Prefix string
	Exact  bool
	// Persistent leaves out ephemeral semaphores, and the links of the others.
	Persistent bool
	// Resource, if it is not empty, is listed with what is below it, and no other resource.
	Resource string
	// Data bounds the bytes of data that each semaphore, owner and waiter is listed with.
	Data int
	// Session and Semaphore, if not 0, are the only ones of their kind to be listed.
	Session   SessionID
	Semaphore SemaphoreID
	// Caller sees nodes whose rows he may read, and no others.
	Caller Caller
}

// InspectionPlace is the place up to which an Inspection has listed the rows in the order of keys. An Inspection can
// continue there even if the row is gone. The zero place is the beginning.
type InspectionPlace struct {
	// Entry is the entry of the path tree that was looked at last. If Node is not 0 it is that node's, and it
	// is not done.
	Entry scheme.EntryID
	Node  NodeID
	// ID is the session, semaphore or resource of Node that was looked at last. It is done unless Links says
	// which of its links were being listed.
	ID    uint64
	Links InspectedLinks
	// Order is the last of these links that was listed, and Near, if not 0, is the other end of one that is
	// not behind it: the search for what comes next begins there.
	Order OrderID
	Near  uint64
}

// InspectedLinks are links of a session or a semaphore that are listed one after another.
type InspectedLinks uint8

// The lists of links.
const (
	NoLinks InspectedLinks = iota
	LinksOfOwners
	LinksOfWaiters
	LinksOfSession
)

// Inspected has the rows of one Inspect. The data that it refers to does not change, but nodes and sessions are as of
// that moment only.
type Inspected struct {
	Nodes      []InspectedNode
	Semaphores []InspectedSemaphore
	Sessions   []InspectedSession
	Resources  []InspectedResource
	// Next is where to go on, unless this was all.
	Next InspectionPlace
	Done bool
	// Looked counts the rows that were looked at, and Weight those of them that stand for names and data.
	Looked, Weight int
	// Missing reports that there is no such path, or that it is a node that the caller may not read.
	Missing bool
}

// InspectedNode is a coordination node.
type InspectedNode struct {
	ID                   NodeID
	Path                 scheme.Path
	Sessions, Semaphores int
	Config               NodeConfig
	History              History
	Created              scheme.Stamp
	Owner                string
}

// InspectedSemaphore is a semaphore with some of its links, or more of them: then it is Continued.
type InspectedSemaphore struct {
	Node            NodeID
	Path            scheme.Path
	ID              SemaphoreID
	Name            string
	Data            []byte
	Count, Limit    uint64
	Ephemeral       bool
	Owners, Waiters int // how many there are
	Continued       bool
	Links           []InspectedLink
	Version         uint64 // of the data; 0: it is ephemeral, or changes do not count yet
}

// InspectedSession is a session with some of its links, or more of them: then it is Continued.
type InspectedSession struct {
	Node          NodeID
	Path          scheme.Path
	ID            SessionID
	Description   string
	TimeoutMillis uint64
	BeganMillis   uint64
	Protected     bool // it has a key
	Continued     bool
	Links         []InspectedLink
}

// InspectedResource is a resource of a rate limiter.
type InspectedResource struct {
	Node       NodeID
	Path       scheme.Path
	ID         ResourceID
	Name       string // its own path
	Properties ResourceProperties
	Effective  Effective
}

// InspectedLink is an owner or a waiter.
type InspectedLink struct {
	Order         OrderID
	Session       SessionID
	Semaphore     SemaphoreID
	Name          string // of the semaphore
	Owner         bool
	Count         uint64
	TimeoutMillis uint64 // of a waiter
	BeganMillis   uint64
	Data          []byte
}

// MinInspectedRows is the number of rows that an Inspect looks at in any case: with fewer, it might not advance.
const MinInspectedRows = 64

// weightBytes of names and data count as a row.
const weightBytes = 16 << 10

// Inspect returns what q is about from a place on, as far as it gets by looking at so many rows, though not
// fewer than MinInspectedRows: entries of the tree, those that the rights depend on included, sessions,
// semaphores, links. A place that nobody has been given leads to some place or other.
func (m *Machine) Inspect(q *Inspection, from InspectionPlace, rows int) Inspected {
	rows = max(rows, MinInspectedRows)
	i := inspector{machine: m, q: q, subject: m.Subject(q.Caller), at: from, left: rows}
	i.run()
	i.found.Next, i.found.Looked = i.at, rows-i.left
	return i.found
}

// inspector is an Inspect under way.
type inspector struct {
	machine *Machine
	q       *Inspection
	subject scheme.Subject
	at      InspectionPlace
	left    int // rows to be looked at
	found   Inspected
}

// look counts a row that is to be looked at. It reports false if there is no more room for it.
func (i *inspector) look() bool {
	if i.left <= 0 {
		return false
	}
	i.left--
	return true
}

// weigh counts a name and data, which a row has as a whole however few rows are left.
func (i *inspector) weigh(name string, data []byte) {
	rows := (len(name) + min(len(data), i.q.Data)) / weightBytes
	i.left -= rows
	i.found.Weight += rows
}

func (i *inspector) run() {
	root, found := i.machine.tree.Lookup(i.q.Path)
	if !found {
		i.found.Missing, i.found.Done = true, true
		return
	}
	if root.Kind == scheme.CoordinationNode {
		n := i.machine.nodes[root.Node]
		i.found.Missing = !i.mayRead(root)
		i.found.Done = i.found.Missing || i.visit(root, n)
		return
	}
	for {
		entry, there := i.entry()
		switch {
		case !there:
			i.found.Done = true
			return
		case i.left < i.cost(entry):
			return
		}
		i.left--
		if n := i.wanted(entry); n != nil && i.mayRead(entry) && !i.visit(entry, n) {
			return
		}
		i.at = InspectionPlace{Entry: entry.ID}
	}
}

// cost is the number of rows to look at to find whether a node is to be visited, and that there is something in it.
func (i *inspector) cost(entry scheme.Entry) int {
	if i.subject.Exempt || entry.Kind != scheme.CoordinationNode {
		return 1
	}
	return 1 + i.machine.tree.RightsRows(entry)
}

// entry is the one to look at next.
func (i *inspector) entry() (scheme.Entry, bool) {
	if i.at.Node != 0 {
		if entry, there := i.machine.tree.ByID(i.at.Entry); there && entry.Node == i.at.Node {
			return entry, true
		}
	}
	return i.machine.tree.After(i.at.Entry)
}

// wanted returns the node of an entry, or nil if it has no node or one that the question is not about.
func (i *inspector) wanted(entry scheme.Entry) *node {
	n := i.machine.nodes[entry.Node]
	if n == nil || len(n.path) < len(i.q.Path) || !slices.Equal(n.path[:len(i.q.Path)], i.q.Path) {
		return nil
	}
	return n
}

func (i *inspector) mayRead(entry scheme.Entry) bool {
	if i.subject.Exempt {
		return true
	}
	i.left -= i.machine.tree.RightsRows(entry)
	return i.machine.tree.Rights(entry, i.subject)&scheme.SelectRow != 0
}

// visit lists what is in a node. It reports whether that was all.
func (i *inspector) visit(entry scheme.Entry, n *node) bool {
	if i.at.Entry != entry.ID || i.at.Node != n.id {
		i.at = InspectionPlace{Entry: entry.ID, Node: n.id}
	}
	switch i.q.Kind {
	case InspectSemaphores:
		return i.semaphores(n)
	case InspectSessions:
		return i.sessions(n)
	case InspectResources:
		return i.resources(n)
	}
	i.found.Nodes = append(i.found.Nodes, InspectedNode{ID: n.id, Path: n.path, Sessions: len(n.sessions),
		Semaphores: len(n.semaphores), Config: n.config, History: n.history, Created: entry.Created,
		Owner: entry.Owner})
	return true
}

func (i *inspector) semaphores(n *node) bool {
	only := i.q.Semaphore
	if i.q.Exact {
		named := n.semaphores[i.q.Prefix]
		if named == nil {
			return true
		}
		only = named.id
	}
	if i.at.ID < uint64(only) { // its links are looked for behind it, if it is another one than before
		i.at.ID, i.at.Links = uint64(only)-1, NoLinks
	}
	for {
		sem, there := i.semaphore(n)
		switch {
		case !there || only != 0 && sem.id != only:
			return true
		case !i.look():
			return false
		}
		continued := i.at.ID == uint64(sem.id)
		i.at.ID = uint64(sem.id)
		if !continued {
			i.at.Links, i.at.Order, i.at.Near = NoLinks, 0, 0
		}
		if !strings.HasPrefix(sem.name, i.q.Prefix) || i.q.Persistent && sem.ephemeral {
			continue
		}
		seen := InspectedSemaphore{Node: n.id, Path: n.path, ID: sem.id, Name: sem.name, Data: sem.data,
			Count: sem.held, Limit: sem.limit, Ephemeral: sem.ephemeral, Owners: sem.owners.length,
			Waiters: sem.waiters.length, Continued: continued, Version: sem.version(&i.machine.versions)}
		i.weigh(sem.name, sem.data)
		all := i.q.Persistent || i.linksOf(n, sem, &seen)
		i.found.Semaphores = append(i.found.Semaphores, seen)
		if !all {
			return false
		}
		i.at.Links, i.at.Order, i.at.Near = NoLinks, 0, 0
	}
}

// semaphore is the one whose links are being listed, or the next.
func (i *inspector) semaphore(n *node) (*semaphore, bool) {
	if i.at.Links != NoLinks {
		if sem, there := n.named.find(i.at.ID); there {
			return sem, true
		}
	}
	return n.named.after(i.at.ID)
}

// linksOf lists the owners of a semaphore and then its waiters. It reports whether that was all.
func (i *inspector) linksOf(n *node, sem *semaphore, seen *InspectedSemaphore) bool {
	if i.at.Links == NoLinks {
		i.at.Links = LinksOfOwners
	}
	if i.at.Links == LinksOfOwners {
		if !i.links(n, sem.owners.first, &seen.Links) {
			return false
		}
		i.at.Links, i.at.Order, i.at.Near = LinksOfWaiters, 0, 0
	}
	return i.links(n, sem.waiters.first, &seen.Links)
}

func (i *inspector) sessions(n *node) bool {
	if i.q.Session != 0 && i.at.ID == 0 {
		i.at.ID = uint64(i.q.Session) - 1
	}
	for {
		s, there := i.session(n)
		switch {
		case !there || i.q.Session != 0 && s.id != i.q.Session:
			return true
		case !i.look():
			return false
		}
		continued := i.at.ID == uint64(s.id)
		if !continued {
			i.at.ID, i.at.Order, i.at.Near = uint64(s.id), 0, 0
		}
		i.at.Links = LinksOfSession
		seen := s.inspected(n)
		seen.Continued = continued
		all := i.links(n, s.links.first, &seen.Links)
		i.found.Sessions = append(i.found.Sessions, seen)
		if !all {
			return false
		}
		i.at.Links, i.at.Order, i.at.Near = NoLinks, 0, 0
	}
}

// resources lists those of a node, each behind what is above it.
func (i *inspector) resources(n *node) bool {
	shown := ResourceListing{Resource: i.q.Resource, Recursive: true}
	if i.q.Resource != "" && i.at.ID == 0 {
		first := n.resources[i.q.Resource]
		if first == nil {
			return true
		}
		i.at.ID = uint64(first.id) - 1 // what is below it came later
	}
	for {
		r, there := n.listedResources.after(i.at.ID)
		switch {
		case !there:
			return true
		case !i.look():
			return false
		}
		if i.at.ID = uint64(r.id); shown.shows(r) {
			i.found.Resources = append(i.found.Resources,
				InspectedResource{n.id, n.path, r.id, r.path, r.properties, n.effective(r)})
		}
	}
}

// session is the one whose links are being listed, or the next.
func (i *inspector) session(n *node) (*session, bool) {
	if i.at.Links != NoLinks {
		if s, there := n.listed.find(i.at.ID); there {
			return s, true
		}
	}
	return n.listed.after(i.at.ID)
}

// links lists those of a list that are behind where the last one left off. It reports whether that was all.
func (i *inspector) links(n *node, first *link, into *[]InspectedLink) bool {
	l := first
	if near := i.near(n); near != nil && near.order <= i.at.Order {
		l = i.next(near)
	}
	for ; l != nil; l = i.next(l) {
		if !i.look() {
			return false
		}
		i.at.Near = i.otherEnd(l)
		if l.order <= i.at.Order {
			continue
		}
		i.at.Order = l.order
		*into = append(*into, l.inspected())
		i.weigh(l.semaphore.name, (*into)[len(*into)-1].Data)
	}
	return true
}

// near is a link of the list under way at which the search may begin, nil if the one that was remembered is
// gone.
func (i *inspector) near(n *node) *link {
	switch i.at.Links {
	case LinksOfSession:
		return n.links[linkKey{SessionID(i.at.ID), SemaphoreID(i.at.Near)}]
	case LinksOfOwners, LinksOfWaiters:
		if l := n.links[linkKey{SessionID(i.at.Near), SemaphoreID(i.at.ID)}]; l != nil &&
			l.owner == (i.at.Links == LinksOfOwners) {
			return l
		}
	}
	return nil
}

func (i *inspector) next(l *link) *link {
	if i.at.Links == LinksOfSession {
		return l.nextOfSession
	}
	return l.next
}

func (i *inspector) otherEnd(l *link) uint64 {
	if i.at.Links == LinksOfSession {
		return uint64(l.semaphore.id)
	}
	return uint64(l.session.id)
}

func (s *session) inspected(n *node) InspectedSession {
	return InspectedSession{Node: n.id, Path: n.path, ID: s.id, Description: s.description,
		TimeoutMillis: s.timeoutMillis, BeganMillis: s.beganMillis, Protected: s.protectionKey != ""}
}

// InspectSession returns a session without its links, false if it does not exist.
func InspectSession(m *Machine, node NodeID, id SessionID) (InspectedSession, bool) {
	n := m.nodes[node]
	if n == nil || n.sessions[id] == nil {
		return InspectedSession{}, false
	}
	return n.sessions[id].inspected(n), true
}

func (l *link) inspected() InspectedLink {
	d := l.described()
	return InspectedLink{Order: d.Order, Session: d.Session, Semaphore: l.semaphore.id,
		Name: l.semaphore.name, Owner: l.owner, Count: d.Count, TimeoutMillis: d.TimeoutMillis,
		BeganMillis: l.beganMillis, Data: d.Data}
}

// PathOfNode is where a coordination node is, nil if it is nowhere any more.
func (m *Machine) PathOfNode(id NodeID) scheme.Path {
	n := m.nodes[id]
	if n == nil {
		return nil
	}
	return n.path
}

// FindSemaphore returns the semaphore of a name, without an id if it is missing, and without a version if its
// changes do not count.
func (m *Machine) FindSemaphore(node NodeID, name string) SemaphoreRow {
	n := m.nodes[node]
	if n == nil || n.semaphores[name] == nil {
		return SemaphoreRow{}
	}
	row := n.semaphores[name].row(n).(SemaphoreRow)
	row.Version = n.semaphores[name].version(&m.versions)
	return row
}

// OrderOf returns the order id with which a session owns or awaits a semaphore, 0 if it does neither. Session 0 stands
// for the first owner.
func OrderOf(m *Machine, node NodeID, semaphore SemaphoreID, session SessionID) OrderID {
	n := m.nodes[node]
	if n == nil {
		return 0
	}
	l := n.links[linkKey{session, semaphore}]
	if sem, there := n.named.find(uint64(semaphore)); there && session == 0 {
		l = sem.owners.first
	}
	if l == nil {
		return 0
	}
	return l.order
}

// Revisions returns the history of a node, and what this server remembers of a semaphore's former data, the oldest
// first.
func Revisions(m *Machine, node NodeID, semaphore SemaphoreID) (History, []revisions.Revision) {
	if n := m.nodes[node]; n != nil {
		return n.history, m.revisions.Of(uint64(node), uint64(semaphore))
	}
	return HistoryNone, nil
}

// Standing is the leader's state of a session.
type Standing struct {
	// Attached reports that a stream has the session: Stream, by its name at the leader.
	Attached bool
	Stream   StreamID
	// Detached is the time since which no stream has it, Never if that was before this leader; and LeftMillis is the
	// rest of its life if that stays so.
	Detached   Instant
	LeftMillis uint64
}

// Standing returns the state of a session, or false if this server does not lead or there is no such session.
func (r *Replica[S, W]) Standing(now Instant, node NodeID, session SessionID) (Standing, bool) {
	if r.leader == nil {
		return Standing{}, false
	}
	return r.leader.standing(now, node, session)
}

// SinkOf is where the messages for a stream go.
func (r *Replica[S, W]) SinkOf(stream StreamID) (sink S, known bool) {
	sink, known = r.sinks[stream]
	return sink, known
}

// ClientOf returns the client of a session, nil if this server does not lead or does not know it.
func (r *Replica[S, W]) ClientOf(node NodeID, session SessionID) *Client {
	if r.leader == nil || r.leader.nodes[node] == nil || r.leader.nodes[node].sessions[session] == nil {
		return nil
	}
	return r.leader.nodes[node].sessions[session].client
}

func (l *Leader) standing(now Instant, node NodeID, session SessionID) (Standing, bool) {
	n := l.machine.nodes[node]
	if n == nil || n.sessions[session] == nil {
		return Standing{}, false
	}
	var s *ledSession
	if led := l.nodes[node]; led != nil {
		s = led.sessions[session]
	}
	standing := Standing{Detached: Never}
	switch {
	case s != nil && s.attachment != nil:
		standing.Attached, standing.Stream = true, s.attachment.stream
	case s != nil && s.countdown != nil:
		if standing.LeftMillis = inMillis(s.until - now); !s.inherited {
			standing.Detached = s.since
		}
	case s == nil || !s.settled: // the takeover has not come to it
		if l.takeover != nil {
			standing.LeftMillis = inMillis(l.ages.began.After(l.takeover.leftMillis(l, n, n.sessions[session])) - now)
		}
	}
	return standing, true
}
