package raftstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// askedServer is one server that is asked for its list, and what came of it so far.
type askedServer struct {
	address  string
	id       uint64      // 0: no member as far as this one knows
	conf     *confRecord // nil: no answer yet
	lineage  uint64
	removed  bool // it says that this member was removed
	failures int
	err      error // the last failure
}

// asking is one time of asking.
type asking struct {
	self    identity
	list    confRecord
	lineage uint64
	fresh   bool // nothing was ever committed here: whoever was named is trusted
	patient bool // it waits for every server's answer
	asked   []askedServer
}

// conclusion is what follows from the answers.
type conclusion struct {
	done    bool
	adopt   *askedServer // whose list to go on with, nil: the one that is known
	failure error        // this member must end
}

// counts reports whether a server's word counts as that of a member.
func (q *asking) counts(a *askedServer) bool {
	return q.fresh || a.id != 0 && slices.Contains(q.list.Voters, a.id)
}

// judge looks for what a majority of the members in the known list says; this one agrees to what the others
// say. As long as fewer of the others answer, all of them have to. A member that has no data yet trusts any
// server that was named to it. A later list is followed only if enough servers know it or a later one, so a
// single server that makes one up is not followed while others answer.
func (q *asking) judge() conclusion {
	majority := len(q.list.Voters)/2 + 1
	needed := majority
	if slices.Contains(q.list.Voters, q.self.Member) {
		needed--
	}
	if q.fresh {
		needed = min(needed, 1)
	}
	var lists []*askedServer
	all, removed, emptied, silent, gone := 0, 0, 0, 0, 0
	for i := range q.asked {
		a := &q.asked[i]
		if !q.counts(a) {
			continue
		}
		all++
		switch {
		case a.removed || a.conf != nil && slices.Contains(a.conf.Removed, q.self.Member):
			removed++
		case a.conf != nil:
			lists = append(lists, a)
			if m := a.conf.member(q.self.Member); m != nil && m.Incarnation != 0 &&
				m.Incarnation != q.self.Incarnation {
				emptied++
			}
		case a.failures == 0:
			silent++
		case a.failures >= strandedTries:
			gone++
		}
	}
	sure := max(min(majority, all), 1)
	fatal := sure // how many must say that this member has to end
	if gone > 0 && len(lists)+removed+gone == all {
		fatal = max(min(needed, sure), 1)
	}
	switch {
	case removed >= fatal:
		return conclusion{done: true, failure: ErrRemoved}
	case emptied >= fatal, emptied > 0 && q.fresh: // then it has nothing to lose
		return conclusion{done: true, failure: ErrEmptied}
	case len(lists) < needed:
		return conclusion{adopt: q.stranded(len(lists) + removed)}
	case len(lists) < sure && silent > 0, len(lists) < all && q.patient:
		return conclusion{}
	case len(lists) == 0: // alone
		return conclusion{done: true}
	}
	slices.SortFunc(lists, func(a, b *askedServer) int { return cmp.Compare(b.conf.Index, a.conf.Index) })
	known := lists[min(sure, len(lists))-1]
	if !q.acceptable(known) {
		known = nil
	}
	return conclusion{done: true, adopt: known}
}

// acceptable reports whether this member could go on with a list.
func (q *asking) acceptable(a *askedServer) bool {
	return a.conf.Index > q.list.Index && a.conf.workable() == nil && a.conf.has(q.self.Member) &&
		(a.lineage == q.lineage || q.fresh)
}

// stranded finds a list where not one known member answers, over many attempts: then the word of a server
// counts that the operator has named. Its members are asked next.
func (q *asking) stranded(answered int) *askedServer {
	if answered > 0 {
		return nil
	}
	var found *askedServer
	for i := range q.asked {
		a := &q.asked[i]
		switch {
		case q.counts(a) && a.failures < strandedTries:
			return nil
		case a.id == 0 && a.conf != nil && q.acceptable(a):
			found = a
		}
	}
	return found
}

// why says for people why it has not come to an end, "" as long as somebody has had no time to answer.
func (q *asking) why() string {
	var silent []string
	for i := range q.asked {
		switch a := &q.asked[i]; {
		case !q.counts(a):
		case a.removed:
			return fmt.Sprintf("%s says that this server was removed", a.name(q.list))
		case a.conf == nil && a.failures == 0:
			return ""
		case a.conf == nil:
			silent = append(silent, fmt.Sprintf("%s (%s)", a.name(q.list), cause(a.err)))
		}
	}
	if len(silent) == 0 {
		return ""
	}
	return "too few of the members that this server knows answer it: " + strings.Join(silent, ", ")
}

func (a *askedServer) name(list confRecord) string {
	if m := list.member(a.id); m != nil && m.Name != "" {
		return m.Name + " at " + a.address
	}
	return a.address
}

// run asks whenever it is to, until ctx is done.
func (a *admission) run(ctx context.Context) {
	a.patience = time.After(firstStartPatience)
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.bell:
		}
		for ctx.Err() == nil && !a.ask(ctx) {
		}
		select { // a stranger cannot have it ask all the time
		case <-ctx.Done():
			return
		case <-time.After(askPause):
		}
	}
}

// plan says whom to ask: the members of the list, and the servers that were named.
func (a *admission) plan(list *admissionList) *asking {
	c := &a.s.cfg.Cluster
	q := &asking{self: a.s.identity, list: list.conf, lineage: a.s.lineage.Load(), fresh: a.s.log.fresh()}
	q.patient = q.fresh && a.patience != nil && slices.Contains(q.list.Voters, q.self.Member)
	add := func(id uint64, address string) {
		known := slices.ContainsFunc(q.asked, func(o askedServer) bool { return o.address == address })
		if address != "" && address != c.address() && !known {
			q.asked = append(q.asked, askedServer{address: address, id: id})
		}
	}
	for _, m := range list.conf.Members {
		if m.ID != a.s.identity.Member && list.admits(m.ID) {
			add(m.ID, m.Peer)
		}
	}
	for _, address := range c.Join {
		add(0, address)
	}
	return q
}

// ask asks until it knows enough; false if the list has changed meanwhile, so that others are to be asked.
func (a *admission) ask(ctx context.Context) bool {
	list := a.list.Load()
	q := a.plan(list)
	ctx, cancel := context.WithCancel(ctx)
	var askers sync.WaitGroup
	defer askers.Wait()
	defer cancel()
	answers := make(chan func())
	for i := range q.asked {
		askers.Go(func() { a.askServer(ctx, &q.asked[i], answers) })
	}
	for {
		end := q.judge()
		if end.adopt != nil {
			if err := a.learn(*end.adopt.conf, end.adopt.lineage); err != nil {
				a.s.inbox.fail(err)
				return true
			}
			a.s.cfg.Logger.Info("other servers know later changes of the members", "as of entry",
				end.adopt.conf.Index)
		}
		switch {
		case end.failure != nil:
			a.s.inbox.fail(end.failure)
			return true
		case end.done:
			a.patience = nil
			a.conclude()
			return true
		case a.list.Load() != list:
			return false
		}
		a.explain(q.why())
		select {
		case <-ctx.Done():
			return false
		case <-a.patience:
			a.patience, q.patient = nil, false
		case note := <-answers:
			note()
		}
	}
}

// askServer asks one server again and again until ctx is done.
func (a *admission) askServer(ctx context.Context, to *askedServer, answers chan<- func()) {
	pause, patience := askRetryMin, helloTimeout
	for {
		bounded, cancel := context.WithTimeout(ctx, patience)
		conf, lineage, err := a.listOf(bounded, to.address, to.id)
		cancel()
		note := func() {
			to.conf, to.lineage, to.removed, to.err = conf, lineage, errors.Is(err, ErrRemoved), err
			if err != nil {
				to.failures++
			}
		}
		select {
		case <-ctx.Done():
			return
		case answers <- note:
		}
		if err == nil { // it may know more by the time others answer
			pause = reconnectPauseMax
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause, patience = min(2*pause, reconnectPauseMax), min(2*patience, askPatienceMax)
	}
}

// listOf gets the list of the server at an address, which has to be a certain member unless id is 0.
func (a *admission) listOf(ctx context.Context, address string, id uint64) (*confRecord, uint64, error) {
	self := a.s.identity
	answer, err := a.s.network.hello(ctx, address,
		&peerpb.HelloRequest{Cluster: self.Cluster, Member: self.Member, Incarnation: self.Incarnation})
	if err != nil {
		return nil, 0, err
	}
	conf, err := decodeConf(answer.GetMembership())
	switch {
	case err != nil:
		return nil, 0, err
	case answer.GetCluster() != self.Cluster:
		return nil, 0, otherCluster(answer, conf, self.Cluster, a.list.Load().conf)
	case id != 0 && answer.GetMember() != id:
		return nil, 0, refuse(ErrOtherCluster, "the server at %s is member %s of this cluster, and not %s",
			address, IDText(answer.GetMember()), IDText(id))
	}
	return &conf, answer.GetLineage(), nil
}
