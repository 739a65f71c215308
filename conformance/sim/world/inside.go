package world

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group"
)

const (
	// lookEvery is the pause between two looks at all servers.
	lookEvery = 3 * time.Millisecond
	// looksPerRoster is the number of looks at a permit for one at members and term, which costs more.
	looksPerRoster = 10
	// leasesOverlap bounds the time after the loss of a connection in which two servers may have a lease: a follower
	// that notices the loss elects another leader at once (raftstore/DESIGN.md).
	leasesOverlap = 950 * time.Millisecond
	// permitOutlives bounds the time in which a server may speak after the last lease ended: a permit, and the
	// tolerance of clocks.
	permitOutlives = 450 * time.Millisecond
	// digestEvery is the number of entries between two digests of a state, in most plans.
	digestEvery = 64
)

// inside compares what the servers know.
type inside struct {
	world    *World
	seed     maphash.Seed
	stop     context.CancelFunc
	entries  map[coordination.Index]content
	digests  map[coordination.Index]uint64
	every    coordination.Index // entries between two digests
	orphaned time.Duration      // since when a server speaks without a leader, -1: none does
	twoLeads bool
}

// content identifies an entry of the log.
type content struct {
	term  coordination.Term
	stamp uint64
	sum   uint64
}

// memory lists what a server's directory must not lose: the executed part of the log. Entries are executed once they
// are durable.
type memory struct {
	executed coordination.Index
	term     coordination.Term
	members  map[uint64]standing // by id
}

func newInside(w *World) inside {
	every := coordination.Index(digestEvery)
	if w.plan.Chance("inside").IntN(20) == 0 {
		every = 1
	}
	return inside{world: w, seed: maphash.MakeSeed(), entries: map[coordination.Index]content{},
		digests: map[coordination.Index]uint64{}, every: every, orphaned: -1}
}

// executed compares an entry, and the state before it, with those of all servers. It is called by a server's
// goroutine.
func (in *inside) executed(l *life, m *coordination.Machine, e *coordination.Entry) {
	var bytes []byte
	for _, c := range e.Commands {
		bytes = codec.AppendCommand(bytes, c)
	}
	this := content{e.Term, e.StampMillis, maphash.Bytes(in.seed, bytes)}
	digest, due := uint64(0), m.Index()%in.every == 0
	if due {
		digest = m.Digest()
	}
	w := in.world
	w.history.Execute(w.trace.Now(), l.index, e)
	w.do(func() {
		l.machine = m
		if known, found := in.entries[e.Index]; found && known != this {
			w.violation("%s executes another entry %d than others did, of term %d, not %d", l.name, e.Index,
				this.term, known.term)
		}
		in.entries[e.Index] = this
		if known, found := in.digests[m.Index()]; due && found && known != digest {
			w.violation("%s has another state than others at entry %d: digests %x and %x", l.name, m.Index(), digest,
				known)
		}
		if due {
			in.digests[m.Index()] = digest
		}
		if l.has.executed < e.Index {
			l.has.executed, l.has.term = e.Index, e.Term
		}
	})
}

// opened looks at what a server has found in its directory. It is called by the server's goroutine.
func (l *life) opened(g *group.Group) {
	w, log := l.world, g.Log()
	logged := coordination.Index(log.LoggedIndex())
	w.do(func() {
		l.group = g
		if logged < l.has.executed {
			w.violation("%s has executed entry %d, and after its restart its log ends with %d", l.name, l.has.executed,
				logged)
		}
		w.counts["starts"]++
	})
	go func() {
		<-g.Ready()
		for n := 0; ; n++ {
			permit := !log.MaySpeak() && g.Led() && !g.Mute() && !g.Leads()
			w.do(func() { l.permit = permit && l.server.life == l })
			if n%looksPerRoster == 0 {
				members, term := log.Members(), coordination.Term(log.Figures().Term)
				w.do(func() { l.look(members, term) })
			}
			time.Sleep(lookEvery)
		}
	}()
}

// standing is a step of a member's way, which no id goes back.
type standing int

const (
	learner standing = iota + 1
	voter
	removed
)

// remember compares members with those of before.
func (m *memory) remember(members raftstore.Members) (problem string) {
	if m.members == nil {
		m.members = map[uint64]standing{}
	}
	for _, member := range members {
		now := voter
		if member.Learner {
			now = learner
		}
		if before := m.members[member.ID]; before > now {
			problem = fmt.Sprintf("member %s goes back from %d to %d", raftstore.IDText(member.ID), before, now)
		}
		m.members[member.ID] = now
	}
	for id := range m.members {
		if _, found := members.Find(id); !found {
			m.members[id] = removed
		}
	}
	return problem
}

// look takes what a server has just seen of itself.
func (l *life) look(members raftstore.Members, term coordination.Term) {
	w := l.world
	if l.server.life != l {
		return
	}
	if term != 0 && term < l.has.term {
		w.violation("%s has executed an entry of term %d, and is in term %d", l.name, l.has.term, term)
	}
	if problem := l.has.remember(members); problem != "" {
		w.violation("%s: %s", l.name, problem)
	}
}

// watch looks at all servers at once, from time to time.
func (w *World) watch() {
	for w.over.Err() == nil {
		time.Sleep(lookEvery)
		w.do(w.compareLeases)
	}
}

// compareLeases sees who may speak to clients, each by its own clock. The lock is held.
func (w *World) compareLeases() {
	in, now := &w.inside, w.trace.Now()
	var leading, permitted *life
	for _, s := range w.servers {
		l := s.life
		if l == nil || l.group == nil || l.stands() {
			continue
		}
		may := false
		rt.As(l.node, func() { may = l.group.Log().MaySpeak() })
		switch {
		case may && leading != nil && now-w.disturbed < leasesOverlap:
			if !in.twoLeads {
				w.counts["two leases"]++
			}
			in.twoLeads = true
		case may && leading != nil:
			w.violation("%s and %s have a lease at once", leading.name, l.name)
		case may:
			leading = l
		case l.permit:
			permitted = l
		}
	}
	switch {
	case leading != nil || permitted == nil:
		in.orphaned = -1
	case in.orphaned < 0:
		in.orphaned = now
	case now-in.orphaned > permitOutlives:
		w.violation("%s speaks to clients, and nobody has had a lease for %v", permitted.name, now-in.orphaned)
	}
	if leading == nil {
		in.twoLeads = false
	}
}
