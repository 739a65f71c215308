package coordination_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
)

// history makes up commands that fit the state of a machine well enough to have consequences, and keeps all
// of them as a log. What it does most differs from seed to seed.
type history struct {
	random  *rand.Rand
	weights []int
	log     []logEntry // entry i has index i+1
	counter uint64     // of epochs
	term    coordination.Term

	sessions map[coordination.NodeID][]coordination.Attach // by node, with the epoch of the last attach
	waits    []coordination.Effect                         // EffectPending
	acquires []*coordination.AcquireSemaphore

	newestKey accounts.Position // id of the last signing key that the machine had
}

type logEntry struct {
	term    coordination.Term
	command coordination.Command
}

var paths = []string{"/local/a", "/local/b", "/local/dir/c", "/local/dir/deeper/d", "/local/dir",
	"/local/dir/deeper"}

var semaphoreNames = []string{"one", "two", "three"}

func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 0)), term: 1,
		sessions: make(map[coordination.NodeID][]coordination.Attach)}
	for range len(makers) {
		h.weights = append(h.weights, 1+h.random.IntN(4))
	}
	h.weights[0] += 30 // acquire
	h.weights[1] += 6  // release
	h.weights[7] += 3  // create semaphore
	h.weights[10] += 1 // create node
	h.weights[12] += 1 // drop node
	return h
}

// makers are the kinds of commands. Each gets a node that exists or existed, and may return nil.
var makers = []func(*history, coordination.NodeID) coordination.Command{
	(*history).acquire, (*history).release, (*history).attachNew, (*history).attachAgain, (*history).stop,
	(*history).expireSession, (*history).expireWaiter, (*history).createSemaphore, (*history).updateSemaphore,
	(*history).deleteSemaphore, (*history).createNode, (*history).alterNode, (*history).dropNode,
	(*history).makeDirectory, (*history).removeDirectory, (*history).modifyPermissions, (*history).nothing,
	(*history).addUser, (*history).setPassword, (*history).removeUser, (*history).rotateSigningKey,
	(*history).setLimits, (*history).administerEnd, (*history).removeSemaphore,
	(*history).createResource, (*history).alterResource, (*history).dropResource,
	(*history).beginAbsence, (*history).endAbsence, (*history).quiet,
}

// next appends an entry to the log.
func (h *history) next(m *coordination.Machine) logEntry {
	if h.random.IntN(100) == 0 {
		h.term++
	}
	if keys := m.Accounts().SigningKeys(); len(keys) > 0 {
		h.newestKey = keys[len(keys)-1].ID
	}
	total := 0
	for _, w := range h.weights {
		total += w
	}
	pick, which := h.random.IntN(total), 0
	for pick >= h.weights[which] {
		pick -= h.weights[which]
		which++
	}
	node := coordination.NodeID(1)
	if parts := scheme.SplitLoose(paths[h.random.IntN(4)]); len(parts) > 0 {
		if entry, found := m.Tree().Lookup(parts); found && entry.Node != 0 {
			node = entry.Node
		}
	}
	e := logEntry{term: h.term, command: makers[which](h, node)}
	if len(h.log)%500 == 499 {
		// every second one is void
		e.command = &coordination.BeginLineage{Lineage: 1 + uint64(len(h.log))/1000}
	}
	h.log = append(h.log, e)
	return e
}

// learn takes the effects of the last entry.
func (h *history) learn(effects []coordination.Effect) {
	for _, e := range effects {
		switch e.Kind {
		case coordination.EffectAttached:
			attach := *h.log[len(h.log)-1].command.(*coordination.Attach)
			attach.Session = e.Session
			list := h.sessions[e.Node]
			for i := range list {
				if list[i].Session == e.Session {
					list[i].Epoch = attach.Epoch
					return
				}
			}
			h.sessions[e.Node] = append(list, attach)
		case coordination.EffectSessionEnded:
			list := h.sessions[e.Node]
			for i := range list {
				if list[i].Session == e.Session {
					h.sessions[e.Node] = append(list[:i], list[i+1:]...)
					break
				}
			}
		case coordination.EffectPending:
			h.waits = append(h.waits, e)
		}
	}
}

// session picks a session of the node: mostly one that lives, under its present epoch.
func (h *history) session(node coordination.NodeID) coordination.Attach {
	list := h.sessions[node]
	if len(list) == 0 || h.random.IntN(30) == 0 {
		return coordination.Attach{Node: node, Session: coordination.SessionID(1 + h.random.IntN(20)),
			Epoch: coordination.Epoch{Term: 1, Counter: 1}}
	}
	return list[h.random.IntN(len(list))]
}

func (h *history) origin(node coordination.NodeID) coordination.Origin {
	s := h.session(node)
	h.counter++
	return coordination.Origin{Node: node, Session: s.Session,
		Address: coordination.Address{Epoch: s.Epoch, Sequence: coordination.Sequence(h.counter)}}
}

func (h *history) epoch() coordination.Epoch {
	h.counter++
	return coordination.Epoch{Term: h.term, Counter: h.counter}
}

func (h *history) call() coordination.CallID {
	h.counter++
	return coordination.CallID{Nonce: h.counter}
}

func (h *history) data() []byte {
	if h.random.IntN(3) == 0 {
		return nil
	}
	return fmt.Appendf(nil, "data %d", h.random.IntN(5))
}

func (h *history) name() string { return semaphoreNames[h.random.IntN(len(semaphoreNames))] }

func (h *history) path() scheme.Path { return scheme.SplitLoose(paths[h.random.IntN(len(paths))]) }

// acquire is now and then a second one of the same session on the same semaphore.
func (h *history) acquire(node coordination.NodeID) coordination.Command {
	c := h.acquireAny(node)
	if n := len(h.acquires); n > 0 && h.random.IntN(3) == 0 {
		earlier := h.acquires[n-1-h.random.IntN(min(n, 10))]
		c.Node, c.Session, c.Name, c.Ephemeral = earlier.Node, earlier.Session, earlier.Name,
			earlier.Ephemeral
		c.Address.Epoch = coordination.Epoch{Term: h.term, Counter: h.counter} // not older than the session's
	}
	h.acquires = append(h.acquires, c)
	return c
}

func (h *history) acquireAny(node coordination.NodeID) *coordination.AcquireSemaphore {
	timeouts := []uint64{0, 1000, 5000, coordination.Infinite}
	ephemeral := h.random.IntN(3) == 0
	name := h.name()
	if ephemeral && h.random.IntN(20) > 0 {
		name += " ephemeral"
	}
	return &coordination.AcquireSemaphore{Origin: h.origin(node), Name: name, Count: 1 + h.random.Uint64N(3),
		TimeoutMillis: timeouts[h.random.IntN(len(timeouts))], Data: h.data(), Ephemeral: ephemeral}
}

func (h *history) release(node coordination.NodeID) coordination.Command {
	name := h.name()
	if h.random.IntN(3) == 0 {
		name += " ephemeral"
	}
	return &coordination.ReleaseSemaphore{Origin: h.origin(node), Name: name}
}

func (h *history) attachNew(node coordination.NodeID) coordination.Command {
	const few = 5 // so that they get in each other's way
	if len(h.sessions[node]) >= few {
		return nil
	}
	key := ""
	if h.random.IntN(3) == 0 {
		key = "key"
	}
	return &coordination.Attach{Node: node, Epoch: h.epoch(), TimeoutMillis: h.random.Uint64N(5000),
		Description: "new", ProtectionKey: key}
}

func (h *history) attachAgain(node coordination.NodeID) coordination.Command {
	attach := h.session(node)
	attach.Epoch, attach.TimeoutMillis, attach.Description = h.epoch(), h.random.Uint64N(5000), "again"
	return &attach
}

func (h *history) stop(node coordination.NodeID) coordination.Command {
	if h.random.IntN(3) > 0 {
		return nil
	}
	return &coordination.StopSession{Origin: h.origin(node)}
}

func (h *history) expireSession(node coordination.NodeID) coordination.Command {
	s := h.session(node)
	epoch := s.Epoch
	if h.random.IntN(4) == 0 {
		epoch.Counter++
	}
	return &coordination.ExpireSession{Node: node, Session: s.Session, AttachEpoch: epoch,
		Term: h.term - coordination.Term(h.random.IntN(2))}
}

func (h *history) beginAbsence(node coordination.NodeID) coordination.Command {
	s := h.session(node)
	return &coordination.BeginAbsence{Node: node, Session: s.Session, AttachEpoch: s.Epoch, Since: h.random.Uint64N(2),
		TotalMillis: 1 + h.random.Uint64N(10_000)}
}

func (h *history) endAbsence(node coordination.NodeID) coordination.Command {
	s := h.session(node)
	return &coordination.EndAbsence{Node: node, Session: s.Session, AttachEpoch: s.Epoch}
}

// quiet is followed by another term, now and then.
func (h *history) quiet(coordination.NodeID) coordination.Command {
	return &coordination.Quiet{Over: h.random.IntN(4) == 0}
}

func (h *history) expireWaiter(coordination.NodeID) coordination.Command {
	if len(h.waits) == 0 {
		return nil
	}
	recent := h.waits[max(0, len(h.waits)-10):]
	e := recent[h.random.IntN(len(recent))]
	return &coordination.ExpireWaiter{Node: e.Node, Session: e.Session, Semaphore: e.Semaphore,
		Order: e.Order, WaitEpoch: e.WaitEpoch, Term: h.term}
}

func (h *history) createSemaphore(node coordination.NodeID) coordination.Command {
	return &coordination.CreateSemaphore{Origin: h.origin(node), Name: h.name(),
		Limit: 1 + h.random.Uint64N(3), Data: h.data()}
}

func (h *history) updateSemaphore(node coordination.NodeID) coordination.Command {
	return &coordination.UpdateSemaphore{Origin: h.origin(node), Name: h.name(), Data: h.data()}
}

func (h *history) deleteSemaphore(node coordination.NodeID) coordination.Command {
	if h.random.IntN(2) > 0 {
		return nil
	}
	return &coordination.DeleteSemaphore{Origin: h.origin(node), Name: h.name(), Force: h.random.IntN(2) == 0}
}

func (h *history) createNode(coordination.NodeID) coordination.Command {
	return &coordination.CreateNode{CallID: h.call(), Path: h.path(), Owner: "owner",
		StampMillis: h.random.Uint64N(100),
		Config:      coordination.NodeConfig{SelfCheckPeriodMillis: h.random.Uint32N(2000)}}
}

func (h *history) alterNode(coordination.NodeID) coordination.Command {
	return &coordination.AlterNode{CallID: h.call(), Path: h.path(), SetsPath: h.random.IntN(4) == 0,
		Config: coordination.NodeConfig{SessionGracePeriodMillis: h.random.Uint32N(3) * 5000,
			ReadConsistencyMode: h.random.Int32N(3)}}
}

// dropNode is rarer than its weight says, so that nodes grow.
func (h *history) dropNode(coordination.NodeID) coordination.Command {
	if h.random.IntN(4) > 0 {
		return nil
	}
	return &coordination.DropNode{CallID: h.call(), Path: h.path()}
}

func (h *history) makeDirectory(coordination.NodeID) coordination.Command {
	return &coordination.MakeDirectory{CallID: h.call(), Path: h.path(), Owner: "maker", StampMillis: 7}
}

func (h *history) removeDirectory(coordination.NodeID) coordination.Command {
	return &coordination.RemoveDirectory{CallID: h.call(), Path: h.path()}
}

func (h *history) modifyPermissions(coordination.NodeID) coordination.Command {
	interrupt := h.random.IntN(2) == 0
	return &coordination.ModifyPermissions{CallID: h.call(), Path: h.path(), Change: scheme.PermissionsChange{
		Clear: h.random.IntN(3) == 0, Interrupt: &interrupt,
		Actions: []scheme.Action{
			{Kind: scheme.Grant, Subject: "somebody", Names: []string{"ydb.generic.read"}},
			{Kind: scheme.ChangeOwner, Subject: fmt.Sprint("owner ", h.random.IntN(3))},
		},
	}}
}

// setLimits mostly gives the state more room than it needs, and sometimes little or none.
func (h *history) setLimits(coordination.NodeID) coordination.Command {
	limits := coordination.StateLimits{State: 1 << 20, NodeBytes: 1 << 20}
	switch h.random.IntN(8) {
	case 0:
		limits.State = 1 + h.random.Uint64N(12_000)
	case 1:
		limits.NodeBytes = 1 + h.random.Uint64N(80)
	case 2:
		limits.Links = 1 + h.random.Uint64N(3)
	}
	return &coordination.SetLimits{CallID: h.call(), Limits: limits, OnlyFirst: h.random.IntN(4) == 0}
}

func (h *history) nothing(coordination.NodeID) coordination.Command { return nil }

func (h *history) administerEnd(node coordination.NodeID) coordination.Command {
	c := &coordination.EndSession{CallID: h.call(), Caller: h.caller(), Node: node,
		Session: coordination.SessionID(h.random.IntN(9)), Reason: "test"}
	if sessions := h.sessions[node]; len(sessions) > 0 {
		c.Session = sessions[h.random.IntN(len(sessions))].Session
	}
	return c
}

func (h *history) removeSemaphore(node coordination.NodeID) coordination.Command {
	return &coordination.RemoveSemaphore{CallID: h.call(), Caller: h.caller(), Node: node,
		Semaphore: coordination.SemaphoreID(h.random.IntN(30)), Force: h.random.IntN(2) == 0}
}

var resourcePaths = []string{"r", "r/1", "r/2", "r/1/x", "s", "s/1"}

func (h *history) resource() string { return resourcePaths[h.random.IntN(len(resourcePaths))] }

func (h *history) properties() coordination.ResourceProperties {
	number := func() coordination.Real {
		return coordination.RealOf([]float64{0, 0, -1, 0.5, 1, 10, 1e300, math.NaN(),
			math.Inf(1)}[h.random.IntN(9)])
	}
	p := coordination.ResourceProperties{MaxUnitsPerSecond: coordination.RealOf(float64(h.random.IntN(5))),
		MaxBurstSizeCoefficient: number(), PrefetchWatermark: coordination.RealOf(h.random.Float64())}
	if h.random.IntN(3) == 0 {
		p.PrefetchCoefficient, p.PrefetchWatermark = number(), number()
		p.MoreSettings = []byte("\x28\x01")
		p.More = []byte("\x1a\x02\x08\x01")
	}
	return p
}

func (h *history) createResource(coordination.NodeID) coordination.Command {
	return &coordination.CreateResource{CallID: h.call(), Caller: h.caller(), Path: h.path(),
		Resource: h.resource(), ResourceProperties: h.properties()}
}

func (h *history) alterResource(coordination.NodeID) coordination.Command {
	return &coordination.AlterResource{CallID: h.call(), Caller: h.caller(), Path: h.path(),
		Resource: h.resource(), ResourceProperties: h.properties()}
}

func (h *history) dropResource(coordination.NodeID) coordination.Command {
	return &coordination.DropResource{CallID: h.call(), Caller: h.caller(), Path: h.path(),
		Resource: h.resource()}
}
