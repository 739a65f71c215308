package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/streams"
)

// Acquisition is a call for units of a resource.
type Acquisition struct {
	Caller coordination.Caller
	// Path is that of the coordination node, and Node the same as a text: one text for a path.
	Path     scheme.Path
	Node     string
	Resource string
	Amount   uint64
	// Used reports whether the amount was used already. If not, the call waits for it, for Limit at most; 0 does not
	// wait.
	Used  bool
	Limit time.Duration
}

// The ends of an acquisition that was not granted. Nothing is taken then.
var (
	// ErrNoResource: the resource does not exist, or is gone.
	ErrNoResource = errors.New("there is no such resource")
	// ErrNoUnits: the units did not suffice until the deadline.
	ErrNoUnits = errors.New("there are not enough units in time")
	// ErrTooManyWait: no further call may wait.
	ErrTooManyWait = errors.New("too many wait for units")
)

// acquisition is one that waits.
type acquisition struct {
	quota.Waiter
	ended   chan struct{} // closed when it has
	counted bool          // among those that leave: its wait, or its time, is over, and it has not left yet
	left    bool
}

// maxKnownRights bounds the pairs of node and caller in knownRights.
const maxKnownRights = 10_000

// lineageRows bounds the rows on the way to a path.
var lineageRows = scheme.DefaultLimits().Depth + 1

// waiterBytes is the memory of a waiting call, in the limiter and elsewhere, without the paths.
const waiterBytes = 256

// knownRights caches the callers that may acquire units of a node's resources, as of one version of all rights.
type knownRights struct {
	version uint64
	callers map[callerOfNode]struct{}
}

type callerOfNode struct {
	subject string
	node    coordination.NodeID
}

func (k *knownRights) may(version uint64, by coordination.Caller, node coordination.NodeID) bool {
	if !by.Enforced {
		return true
	}
	_, may := k.callers[callerOfNode{by.Subject, node}]
	return may && k.version == version
}

func (k *knownRights) add(version uint64, by coordination.Caller, node coordination.NodeID) {
	if !by.Enforced {
		return
	}
	if k.version != version || len(k.callers) >= maxKnownRights || k.callers == nil {
		k.version, k.callers = version, make(map[callerOfNode]struct{})
	}
	k.callers[callerOfNode{by.Subject, node}] = struct{}{}
}

// Acquire takes units of a resource, and waits for them if it must. look makes the context in which it is
// looked for the resource where this server does not know it; ctx is for the waiting. refused is not OK if
// the caller may not acquire there. Errors: those above, ErrStopped, that of look's context as CatchUp gives
// it, that of ctx.
func (l *Limiter) Acquire(ctx context.Context, look func() (context.Context, context.CancelFunc),
	a Acquisition) (refused outcome.Outcome, err error) {
	deadline := l.clock.Now() + coordination.Instant(a.Limit)
	for {
		wait, known, err := l.acquire(&a, deadline)
		switch {
		case err != nil:
			return outcome.Done(), err
		case wait != nil:
			return outcome.Done(), l.await(ctx, wait, deadline)
		case known:
			return outcome.Done(), nil
		}
		looking, cancel := look()
		refused, err = l.lookUp(looking, &a)
		cancel()
		if err != nil || !refused.OK() {
			return refused, err
		}
	}
}

// acquire takes units, or makes the call wait for them. known is false before it is known whether the resource exists
// and the caller may acquire it.
func (l *Limiter) acquire(a *Acquisition, deadline coordination.Instant) (wait *acquisition, known bool, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now, version := l.clock.Now(), l.core.AccessVersion()
	b := l.named[resourceName{a.Node, a.Resource}]
	switch {
	case l.stopped:
		return nil, false, streams.ErrStopped
	case b == nil || !l.rights.may(version, a.Caller, b.Key().Node):
		return nil, false, nil
	case a.Used:
		l.buckets.Use(now, b, a.Amount)
		l.followUp()
		return nil, true, nil
	case l.buckets.Acquire(now, b, a.Amount):
		l.followUp()
		return nil, true, nil
	case deadline <= now:
		return nil, true, ErrNoUnits
	}
	wait = &acquisition{ended: make(chan struct{})}
	wait.Owner, wait.Bytes = wait, waiterBytes+len(a.Node)+len(a.Resource)
	if !l.buckets.Wait(now, b, a.Amount, &wait.Waiter) {
		return nil, true, ErrTooManyWait
	}
	l.followUp()
	return wait, true, nil
}

// await returns when a wait has ended, if only because its time, or its caller's, is over.
func (l *Limiter) await(ctx context.Context, w *acquisition, deadline coordination.Instant) error {
	over := make(chan struct{})
	timer := l.clock.AfterFunc(time.Duration(deadline-l.clock.Now()), func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.countLeaving(w)
		close(over)
	})
	defer timer.Stop()
	end := ErrNoUnits
	select {
	case <-w.ended:
	case <-over:
	case <-ctx.Done():
		end = ctx.Err()
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	ended := l.buckets.Cancel(l.clock.Now(), &w.Waiter)
	if w.left = true; w.counted {
		l.leaving--
	}
	l.followUp()
	switch ended {
	case quota.Granted:
		return nil
	case quota.Dropped:
		return ErrNoResource
	case quota.Stopped:
		return streams.ErrStopped
	}
	return end
}

// countLeaving counts a call that has a reason to leave until it has. The mutex is held.
func (l *Limiter) countLeaving(w *acquisition) {
	if !w.counted && !w.left {
		w.counted = true
		l.leaving++
	}
}

// lookUp finds out which resource is meant, and whether the caller may acquire units of it. What this server
// has may be late, so a refusal is looked at again once it is up to date.
func (l *Limiter) lookUp(ctx context.Context, a *Acquisition) (outcome.Outcome, error) {
	find := func() (answer outcome.Outcome, err error) {
		found := false
		err = l.core.Look(ctx, lineageRows, func(t turn.Token, m *coordination.Machine) {
			if answer = m.Resources().MayAcquire(a.Caller, a.Path); answer.OK() {
				found = l.learn(t, m, a)
			}
		})
		if err == nil && answer.OK() && !found {
			err = ErrNoResource
		}
		return answer, err
	}
	answer, err := find()
	if err == nil && answer.OK() || err != nil && !errors.Is(err, ErrNoResource) {
		return answer, err
	}
	if err := l.core.CatchUp(ctx); err != nil {
		return outcome.Outcome{}, err
	}
	return find()
}

// learn takes note of the resource that a call names, and that its caller may acquire units of it.
func (l *Limiter) learn(t turn.Token, m *coordination.Machine, a *Acquisition) bool {
	t.Check()
	key, e, found := m.Resources().Find(a.Path, a.Resource)
	if !found {
		return false
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	b, name := l.buckets.Learn(key, e), resourceName{a.Node, a.Resource}
	l.named[name], l.names[b] = b, name
	l.rights.add(l.core.AccessVersion(), a.Caller, key.Node)
	return true
}
