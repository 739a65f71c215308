package coordination

import (
	"fmt"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/coordination/revisions"
	"github.com/coordd/coordd/scheme"
)

// Machine is the replicated state. It is not safe for concurrent use: one Replica owns it, together with the
// Leader that reads it.
type Machine struct {
	configured Limits // this server's own; nothing that a command does depends on them
	index      Index
	// of the command of the entry at index that is executed, or was last; endOfEntry between entries
	place Place
	// restored is the index of the checkpoint that the machine was read from, 0 if from none, and
	// restoredDigest its digest.
	restored       Index
	restoredDigest uint64
	tree           *scheme.Tree
	nodes          map[NodeID]*node
	inOrder        chain[*node] // the same, ascending by id
	walk           *walk        // that is under way, or nil
	calls          callMemory

	// Parts that touch nothing but their own fields.
	effects
	occurrences
	clock    logClock
	calm     calm
	versions versions
	*room

	nextNode NodeID
	lineage  lineage
	dropped  []NodeID // since the last checkpoint

	revisions revisions.Store // not stored, and no command depends on it

	accounts      *accounts.Accounts
	accountRows   accountRows
	accessVersion uint64

	rows       *rowTracker
	pathHashes map[scheme.EntryID]uint64 // of the path rows of the last checkpoint
	pathsBase  uint64                    // their sum
}

// NewMachine returns the state before the first command: the database and nothing in it. It fails if database
// is not a valid absolute path.
func NewMachine(database string, limits Limits) (*Machine, error) {
	tree, err := scheme.New(database)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return &Machine{
		configured: limits, place: endOfEntry, tree: tree, nodes: make(map[NodeID]*node), nextNode: 1,
		accounts: new(accounts.Accounts),
		rows:     &rowTracker{generation: 1}, pathHashes: make(map[scheme.EntryID]uint64),
		room: &room{used: MachineRow{}.sized(), tree: tree},
	}, nil
}

// Index is the last applied position of the log.
func (m *Machine) Index() Index { return m.index }

// ClockMillis returns the log clock: the time that all leaders together have proven to have served.
func (m *Machine) ClockMillis() uint64 { return m.clock.millis }

// Tree is the path tree, to read from.
func (m *Machine) Tree() *scheme.Tree { return m.tree }

// Config returns the stored configuration of a coordination node.
func (m *Machine) Config(id NodeID) (NodeConfig, bool) {
	n := m.nodes[id]
	if n == nil {
		return NodeConfig{}, false
	}
	return n.config, true
}

// at is the position of the command that is executed, or was last; between entries the end of the last one.
func (m *Machine) at() Position { return Position{m.index, m.place} }

// Apply executes an entry of one command, or of none if c is nil, as ApplyEntry does.
func (m *Machine) Apply(index Index, term Term, c Command) []Effect {
	e := Entry{Index: index, Term: term}
	if c != nil {
		e.Commands = []Command{c}
	}
	return m.ApplyEntry(&e)
}

// ApplyEntry executes the commands of an entry and returns what follows from them in the order in which
// clients may see it (§4.6). The slice is valid until the next call.
//
// Commands are executed one after another by every server alike; a command that is refused is an effect, not
// an error. ApplyEntry panics if the log goes back: that is a broken invariant of its caller. After any panic
// the machine must not be used any more: the entry is executed in part.
func (m *Machine) ApplyEntry(e *Entry) []Effect {
	m.begin(e)
	for i, c := range e.Commands {
		m.execute(Place(i), e.Term, c)
	}
	return m.end()
}

// begin begins an entry. Each of its commands is to be executed then, and end ends it.
func (m *Machine) begin(e *Entry) {
	m.mustBeBetween("an entry")
	if e.Index <= m.index {
		panic(fmt.Sprintf("coordination: entry %d applied after entry %d", e.Index, m.index))
	}
	e.check()
	m.index, m.place = e.Index, 0
	m.stampMillis = max(m.stampMillis, e.StampMillis)
	m.entry, m.number = e.Index, 0
	m.clock.proves(e.Term, e.ServedMillis)
	if e.Versions {
		m.versions.count(m.counts.Semaphores)
	}
	if len(e.Commands) == 0 {
		m.calm.begins(e.Term)
	}
	clear(m.list)
	m.list = m.list[:0]
}

// end ends an entry and returns the effects of all its commands.
func (m *Machine) end() []Effect {
	m.place = endOfEntry
	return m.list
}

// mustBeBetween panics within an entry: what is the state of no entry is nobody's business.
func (m *Machine) mustBeBetween(what string) {
	if m.place != endOfEntry {
		panic(fmt.Sprintf("coordination: %s within entry %d, behind its command %d", what, m.index, m.place))
	}
}

// execute executes the next command of the entry that has begun, written in term, and returns its effects.
func (m *Machine) execute(place Place, term Term, c Command) []Effect {
	m.place = place
	m.calm.quiet = 0
	m.cause, m.user = 0, ""
	before := len(m.list)
	switch c := c.(type) {
	case *AcquireSemaphore:
		if n, s := m.origin(&c.Origin, RequestAcquire); s != nil {
			m.acquireSemaphore(n, s, c)
		}
	case *ReleaseSemaphore:
		if n, s := m.origin(&c.Origin, RequestRelease); s != nil {
			m.releaseSemaphore(n, s, c)
		}
	case *CreateSemaphore:
		if n, s := m.origin(&c.Origin, RequestCreate); s != nil {
			m.createSemaphore(n, s, c)
		}
	case *UpdateSemaphore:
		if n, s := m.origin(&c.Origin, RequestUpdate); s != nil {
			m.updateSemaphore(n, s, c)
		}
	case *DeleteSemaphore:
		if n, s := m.origin(&c.Origin, RequestDelete); s != nil {
			m.deleteSemaphore(n, s, c)
		}
	case *StopSession:
		if n, s := m.origin(&c.Origin, RequestStop); s != nil {
			m.endOccurs(OccurSessionStopped, n, s, OccurrenceMore{Client: c.Client})
			m.endSession(n, s, c.Address)
		}
	case *Attach:
		m.attach(c)
	case *ExpireSession:
		m.expireSession(c, term)
	case *BeginLineage:
		m.beginLineage(c)
	case *BeginAbsence:
		m.setAbsence(c.Node, c.Session, c.AttachEpoch, absence{c.Since, c.TotalMillis})
	case *EndAbsence:
		m.setAbsence(c.Node, c.Session, c.AttachEpoch, absence{})
	case *Quiet:
		if !c.Over {
			m.calm.ends(term, &m.clock)
		}
	case *Mark, *Age:
	case *ExpireWaiter:
		if n := m.nodes[c.Node]; n != nil {
			m.expireWaiter(n, c, term)
		}
	case callCommand:
		m.executeCall(c)
	default:
		panic(fmt.Sprintf("coordination: unknown command %T", c))
	}
	return m.list[before:]
}

// origin finds who asked. A session that is gone, or that belongs to a later stream by now, gets a refusal
// instead (§3.1, session checks). The node is gone only after its streams were ended, so nobody waits for an
// answer then.
func (m *Machine) origin(o *Origin, request RequestKind) (*node, *session) {
	n := m.nodes[o.Node]
	if n == nil {
		return nil, nil
	}
	s := n.sessions[o.Session]
	if s == nil {
		m.emit(Effect{Kind: EffectResult, Node: o.Node, Session: o.Session, Address: o.Address,
			Request: request, Refusal: SessionMissing})
		return n, nil
	}
	m.asking = s
	if o.Address.Epoch.Compare(s.attachEpoch) < 0 {
		m.refuse(o, request, SessionNotAttached)
		return n, nil
	}
	s.memory.see(o)
	return n, s
}

// attach is §2.4. The leader has checked the request against the state it knew; existence, key and owner are
// checked again, because another command may have come in between.
func (m *Machine) attach(c *Attach) {
	refuse := func(refusal *Refusal) {
		m.emit(Effect{Kind: EffectAttachRefused, Node: c.Node, Session: c.Session,
			Address: Address{Epoch: c.Epoch}, Refusal: refusal})
	}
	n := m.nodes[c.Node]
	if n == nil {
		refuse(NodeNotFound)
		return
	}
	session := c.Session
	if session == 0 { // a repetition, sent before the first one was executed, means the same session
		session = n.nonces[c.Nonce]
	}
	if session == 0 {
		switch {
		case uint64(len(n.sessions)) >= m.limits.sessions():
			refuse(TooManySessions)
			return
		}
		if refusal := m.refuseGrowth(n, c.sized()); refusal != nil {
			refuse(refusal)
			return
		}
		s := n.addSession(c, m.stampMillis)
		s.memory.complete = true
		m.sessionOccurs(OccurSessionStarted, n, s)
		m.emit(Effect{Kind: EffectAttached, Node: n.id, Session: s.id, Address: Address{Epoch: c.Epoch},
			Created: true})
		return
	}
	s := n.sessions[session]
	switch {
	case s == nil:
		refuse(SessionExpired)
		return
	case !s.acceptsKey(c.ProtectionKey):
		refuse(ProtectionKeyMismatch)
		return
	case !s.acceptsIdentity(c.Identity, c.MayWrite):
		refuse(NoAccess)
		return
	}
	n.touch(s)
	s.timeoutMillis, s.attachEpoch, s.attachPlace = c.TimeoutMillis, c.Epoch, c.Place
	s.absence = absence{}
	m.describeSession(n, s, c.Description)
	s.memory = memory{complete: true}
	m.sessionOccurs(OccurSessionAttached, n, s)
	m.emit(Effect{Kind: EffectAttached, Node: n.id, Session: s.id, Address: Address{Epoch: c.Epoch}})
}

// describeSession replaces a session's description. Who has a session may always come back to it: where there
// is no room for a longer description, it keeps the one that it has.
func (m *Machine) describeSession(n *node, s *session, description string) {
	before := len(s.description)
	if len(description) > before && m.refuseGrowth(n, uint64(len(description)-before)) != nil {
		return
	}
	n.free(uint64(before))
	n.use(uint64(len(description)))
	s.description = description
}

// acceptsKey is check 17 of §2.3: a session without a key accepts any, and never adopts one.
func (s *session) acceptsKey(sent string) bool {
	return s.protectionKey == "" || s.protectionKey == sent
}

func (m *Machine) setAbsence(id NodeID, session SessionID, attached Epoch, a absence) {
	n := m.nodes[id]
	if n == nil || a.since > m.clock.millis {
		return
	}
	if s := n.sessions[session]; s != nil && s.attachEpoch == attached {
		n.touch(s)
		s.absence = a
	}
}

func (m *Machine) expireSession(c *ExpireSession, term Term) {
	n := m.nodes[c.Node]
	if n == nil || c.Term != term {
		return
	}
	if s := n.sessions[c.Session]; s != nil && s.attachEpoch == c.AttachEpoch {
		m.endOccurs(OccurSessionExpired, n, s, OccurrenceMore{Client: c.Client})
		m.endSession(n, s, Address{})
	}
}

// Subject is a caller as the path tree wants to know it: administrators are exempt from access control.
func (m *Machine) Subject(c Caller) scheme.Subject {
	return scheme.Subject{Name: c.Subject, Exempt: !c.Enforced || m.accounts.IsAdministrator(c.Subject)}
}

// judge judges the commands of calls. Its steps change the machine.
type judge struct{ *Machine }
