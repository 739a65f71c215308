package roster

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

const (
	// HelloTimeout bounds the wait for the first answer of a server.
	HelloTimeout = time.Second
	// askRetryMin is the pause before a server that did not answer is asked again; it doubles.
	askRetryMin = 20 * time.Millisecond
	// askPatienceMax bounds the wait for one answer: a busy machine may take longer than HelloTimeout.
	askPatienceMax = 4 * time.Second
	askPause       = 200 * time.Millisecond
	// firstStartPatience is the time of a first start for servers that do not answer: one of them may know an earlier
	// data directory.
	firstStartPatience = 5 * time.Second
)

// server is one server that is asked for its list, and what came of it so far.
type server struct {
	membership.Answer
	address string
	err     error // the last failure
}

// Asking is one round of questions to other servers.
type Asking struct {
	membership.Asker
	Servers []server
}

// Judge concludes from the answers so far.
func (q *Asking) Judge() membership.Verdict {
	answers := make([]membership.Answer, len(q.Servers))
	for i, a := range q.Servers {
		answers[i] = a.Answer
	}
	return q.Asker.Judge(answers)
}

// why says for people why it has not come to an end, "" as long as somebody has had no time to answer.
func (q *Asking) why() string {
	var silent []string
	for i := range q.Servers {
		switch a := &q.Servers[i]; {
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

func (a *server) name(list membership.Conf) string {
	if m := list.Member(a.ID); m != nil && m.Name != "" {
		return m.Name + " at " + a.address
	}
	return a.address
}

// Start lets it ask, until Close.
func (r *Roster) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	r.warnOfCertificates()
	r.asker.Go(func() { r.run(ctx) })
}

// Close ends what Start began.
func (r *Roster) Close() {
	r.end()
	r.asker.Wait()
}

// run asks whenever it is to, until ctx is done.
func (r *Roster) run(ctx context.Context) {
	r.patience = time.After(firstStartPatience)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.bell:
		}
		for ctx.Err() == nil && !r.ask(ctx) {
		}
		select { // a stranger cannot have it ask all the time
		case <-ctx.Done():
			return
		case <-time.After(askPause):
		}
	}
}

// Plan lists the servers to ask: the members of the list, and those that were named.
func (r *Roster) Plan(list *membership.List) *Asking {
	self, fresh := r.cfg.Self, r.cfg.Fresh()
	q := &Asking{Asker: membership.Asker{Self: self.Member, Incarnation: self.Incarnation, Own: list.Conf,
		Lineage: r.cfg.Lineage(), Fresh: fresh,
		Patient: fresh && r.patience != nil && slices.Contains(list.Conf.Voters, self.Member)}}
	add := func(id uint64, address string) {
		known := slices.ContainsFunc(q.Servers, func(o server) bool { return o.address == address })
		if address != "" && address != r.cfg.Address && !known {
			q.Servers = append(q.Servers, server{Answer: membership.Answer{ID: id}, address: address})
		}
	}
	for _, m := range list.Conf.Members {
		if m.ID != self.Member && list.Admits(m.ID) {
			add(m.ID, m.Peer)
		}
	}
	for _, address := range r.cfg.Join {
		add(0, address)
	}
	return q
}

// ask asks until it knows enough; false if the list has changed meanwhile, so that others are to be asked.
func (r *Roster) ask(ctx context.Context) bool {
	list := r.List()
	q := r.Plan(list)
	ctx, cancel := context.WithCancel(ctx)
	var askers sync.WaitGroup
	defer askers.Wait()
	defer cancel()
	answers := make(chan func())
	for i := range q.Servers {
		askers.Go(func() { r.askServer(ctx, &q.Servers[i], answers) })
	}
	for {
		end := q.Judge()
		if end.Adopt != nil {
			if err := r.Learn(*end.Adopt.Conf, end.Adopt.Lineage); err != nil {
				r.cfg.Fail(err)
				return true
			}
			r.cfg.Logger.Info("other servers know later changes of the members", "as of entry", end.Adopt.Conf.Index)
		}
		switch {
		case end.Removed:
			r.cfg.Fail(peers.ErrRemoved)
			return true
		case end.Emptied:
			r.cfg.Fail(peers.ErrEmptied)
			return true
		case end.Done:
			r.patience = nil
			r.Conclude()
			return true
		case r.List() != list:
			return false
		}
		r.mu.Lock()
		r.why = q.why()
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-r.patience:
			r.patience, q.Patient = nil, false
		case note := <-answers:
			note()
		}
	}
}

// askServer asks one server again and again until ctx is done.
func (r *Roster) askServer(ctx context.Context, to *server, answers chan<- func()) {
	pause, patience := askRetryMin, HelloTimeout
	for {
		bounded, cancel := context.WithTimeout(ctx, patience)
		conf, lineage, err := r.listOf(bounded, to.address, to.ID)
		cancel()
		note := func() {
			to.Conf, to.Lineage, to.Removed, to.err = conf, lineage, errors.Is(err, peers.ErrRemoved), err
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
func (r *Roster) listOf(ctx context.Context, address string, id uint64) (*membership.Conf, uint64, error) {
	self := r.cfg.Self
	answer, err := r.cfg.Network.Hello(ctx, address,
		&peerpb.HelloRequest{Cluster: self.Cluster, Member: self.Member, Incarnation: self.Incarnation})
	if err != nil {
		return nil, 0, err
	}
	conf, err := membership.Decode(answer.GetMembership())
	switch {
	case err != nil:
		return nil, 0, err
	case answer.GetCluster() != self.Cluster:
		return nil, 0, OtherCluster(answer, conf, self.Cluster, r.List().Conf)
	case id != 0 && answer.GetMember() != id:
		return nil, 0, peers.Refuse(peers.ErrOtherCluster,
			"the server at %s is member %s of this cluster, and not %s", address,
			membership.IDText(answer.GetMember()), membership.IDText(id))
	}
	return &conf, answer.GetLineage(), nil
}

// OtherCluster returns the difference between the server that has answered and this one, which belongs to cluster and
// has members.
func OtherCluster(answer *peerpb.HelloResponse, theirs membership.Conf, cluster uint64, members membership.Conf) error {
	switch {
	case !answer.GetFresh():
		return peers.Refuse(peers.ErrOtherCluster,
			"it belongs to cluster %s already, with the members %s; this server is of cluster %s, with the members %s",
			membership.IDText(answer.GetCluster()), theirs.List(), membership.IDText(cluster), members.List())
	case theirs.List() == members.List():
		return peers.Refuse(peers.ErrOtherCluster,
			"it was given the same first members, and another token of the cluster")
	}
	return peers.Refuse(peers.ErrOtherCluster, "it was given other first members: %s there, %s here", theirs.List(),
		members.List())
}
