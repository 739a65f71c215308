package raftstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// askedServer is one server that is asked for its list, and what came of it so far.
type askedServer struct {
	membership.Answer
	address string
	err     error // the last failure
}

// asking is one time of asking.
type asking struct {
	membership.Asker
	asked []askedServer
}

// judge concludes from the answers so far.
func (q *asking) judge() membership.Verdict {
	answers := make([]membership.Answer, len(q.asked))
	for i, a := range q.asked {
		answers[i] = a.Answer
	}
	return q.Judge(answers)
}

// why says for people why it has not come to an end, "" as long as somebody has had no time to answer.
func (q *asking) why() string {
	var silent []string
	for i := range q.asked {
		switch a := &q.asked[i]; {
		case !q.Counts(&a.Answer):
		case a.Removed:
			return fmt.Sprintf("%s says that this server was removed", a.name(q.Own))
		case a.Conf == nil && a.Tries == 0:
			return ""
		case a.Conf == nil:
			silent = append(silent, fmt.Sprintf("%s (%s)", a.name(q.Own), peers.Cause(a.err)))
		}
	}
	if len(silent) == 0 {
		return ""
	}
	return "too few of the members that this server knows answer it: " + strings.Join(silent, ", ")
}

func (a *askedServer) name(list membership.Conf) string {
	if m := list.Member(a.ID); m != nil && m.Name != "" {
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

// plan lists the servers to ask: the members of the list, and those that were named.
func (a *admission) plan(list *membership.List) *asking {
	c := &a.s.cfg.Cluster
	self, fresh := a.s.identity, a.s.log.fresh()
	q := &asking{Asker: membership.Asker{Self: self.Member, Incarnation: self.Incarnation, Own: list.Conf,
		Lineage: a.s.lineage.Load(), Fresh: fresh,
		Patient: fresh && a.patience != nil && slices.Contains(list.Conf.Voters, self.Member)}}
	add := func(id uint64, address string) {
		known := slices.ContainsFunc(q.asked, func(o askedServer) bool { return o.address == address })
		if address != "" && address != c.address() && !known {
			q.asked = append(q.asked, askedServer{Answer: membership.Answer{ID: id}, address: address})
		}
	}
	for _, m := range list.Conf.Members {
		if m.ID != self.Member && list.Admits(m.ID) {
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
		if end.Adopt != nil {
			if err := a.learn(*end.Adopt.Conf, end.Adopt.Lineage); err != nil {
				a.s.inbox.fail(err)
				return true
			}
			a.s.cfg.Logger.Info("other servers know later changes of the members", "as of entry",
				end.Adopt.Conf.Index)
		}
		switch {
		case end.Removed:
			a.s.inbox.fail(ErrRemoved)
			return true
		case end.Emptied:
			a.s.inbox.fail(ErrEmptied)
			return true
		case end.Done:
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
			a.patience, q.Patient = nil, false
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
		conf, lineage, err := a.listOf(bounded, to.address, to.ID)
		cancel()
		note := func() {
			to.Conf, to.Lineage, to.Removed, to.err = conf, lineage, errors.Is(err, ErrRemoved), err
			if err != nil {
				to.Tries++
			}
		}
		select {
		case <-ctx.Done():
			return
		case answers <- note:
		}
		if err == nil { // it may know more by the time others answer
			pause = peers.ReconnectPauseMax
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause, patience = min(2*pause, peers.ReconnectPauseMax), min(2*patience, askPatienceMax)
	}
}

// listOf gets the list of the server at an address, which has to be a certain member unless id is 0.
func (a *admission) listOf(ctx context.Context, address string, id uint64) (*membership.Conf, uint64, error) {
	self := a.s.identity
	answer, err := a.s.network.Hello(ctx, address,
		&peerpb.HelloRequest{Cluster: self.Cluster, Member: self.Member, Incarnation: self.Incarnation})
	if err != nil {
		return nil, 0, err
	}
	conf, err := membership.Decode(answer.GetMembership())
	switch {
	case err != nil:
		return nil, 0, err
	case answer.GetCluster() != self.Cluster:
		return nil, 0, otherCluster(answer, conf, self.Cluster, a.list.Load().Conf)
	case id != 0 && answer.GetMember() != id:
		return nil, 0, peers.Refuse(ErrOtherCluster, "the server at %s is member %s of this cluster, and not %s",
			address, IDText(answer.GetMember()), IDText(id))
	}
	return &conf, answer.GetLineage(), nil
}
