package coordination

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// administer runs a command of an administrator to its end, and looks how it is answered.
func (r *rig) administer(want outcome.Status, c Command) {
	r.t.Helper()
	r.calls = nil
	r.call(c)
	r.applyAll()
	if len(r.calls) != 1 || r.calls[0].Outcome.Status != want {
		r.t.Errorf("%T: answered %+v, want %s", c, r.calls, want)
	}
}

// A session is ended for the sake of a lock only if it still has it when the command is executed: here it gives the
// lock up while the command is under way.
func TestEndSessionAsSeen(t *testing.T) {
	r := newHeldRig(t)
	order := OrderOf(r.machine, 1, 1, r.session)
	end := &EndSession{Node: 1, Session: r.session, Semaphore: 1, Order: order}
	wrong := *end
	wrong.Order++
	r.administer(outcome.PreconditionFailed, &wrong)
	r.request(r.stream, 2, Request{Kind: RequestRelease, Name: "lock"})
	r.administer(outcome.PreconditionFailed, end)
	if r.machine.nodes[1].sessions[r.session] == nil {
		t.Fatal("the session has ended, and does not have the lock any more")
	}
	next := r.machine.nodes[1].semaphores["lock"].owners.first
	asSeen := &EndSession{Node: 1, Session: next.session.id, Semaphore: 1, Order: next.order}
	r.administer(outcome.Success, asSeen)
	r.administer(outcome.PreconditionFailed, asSeen) // it is gone
}

// The client of an ended session is notified that it has expired, and the lock goes to the next one, be the session
// attached or not.
func TestEndSession(t *testing.T) {
	for _, attached := range []bool{true, false} {
		r := newHeldRig(t)
		if !attached {
			r.leader.Detach(r.now, r.stream)
		}
		r.administer(outcome.BadRequest, &EndSession{Node: 1, Session: r.session,
			Reason: strings.Repeat("x", MaxReasonBytes+1)})
		r.administer(outcome.Success, &EndSession{Node: 1, Session: r.session,
			Reason: strings.Repeat("x", MaxReasonBytes)})
		want := []string{fmt.Sprintf("%d #1 done true", r.other)}
		if attached {
			want = slices.Insert(want, 0, fmt.Sprintf("%d end Session has expired", r.stream))
		}
		r.expect(want...)
		r.administer(outcome.NotFound, &EndSession{Node: 1, Session: r.session})
		r.administer(outcome.NotFound, &EndSession{Node: 7, Session: r.session})
		r.pass(10_000)
		if n := r.tick(); n != 0 {
			t.Errorf("attached is %v: the leader proposes %d commands about a session that has ended",
				attached, n)
		}
	}
}

// A stream that waits for what becomes of its session hears of it also where that is ended by somebody else
// than what it waits for.
func TestEndSessionOfAHeldRoster(t *testing.T) {
	r := newHeldRig(t)
	r.expire()
	r.leader.Resume(r.now, 100, r.roster)
	expiry := r.inFlight
	r.inFlight = nil
	r.administer(outcome.Success, &EndSession{Node: 1, Session: r.session})
	r.expect(fmt.Sprintf("%d #1 done true", r.other), "100 end Session has expired")
	r.inFlight = expiry
	r.applyAll()
	r.expect()
	r.forgotten(100)
}

// An attach that is answered without the log while its session's end is on the way hears of the end behind
// it.
func TestEndSessionBesideAnAttach(t *testing.T) {
	r := newHeldRig(t)
	r.leader.Detach(r.now, r.stream)
	r.call(&EndSession{Node: 1, Session: r.session})
	stream := r.open(AttachRequest{Path: "/local/n", Session: r.session, TimeoutMillis: 5000, Server: 2})
	r.expect(fmt.Sprintf("%d attached %d", stream, r.session))
	r.applyAll()
	r.expect(fmt.Sprintf("%d end Session has expired", stream), fmt.Sprintf("%d #1 done true", r.other))
}

// A semaphore is removed as the protocol removes it.
func TestRemoveSemaphore(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	owner, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	waiter, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	create := Request{Kind: RequestCreate, Name: "s", Limit: 1}
	r.request(owner, 1, create)
	r.request(owner, 2, Request{Kind: RequestAcquire, Name: "s", Count: 1})
	r.request(waiter, 1, Request{Kind: RequestAcquire, Name: "s", Count: 1, TimeoutMillis: Infinite})
	r.request(owner, 3, tryLock)
	r.applyAll()
	r.request(waiter, 2, Request{Kind: RequestDescribe, Name: "s", WatchData: true})
	r.said()
	r.administer(outcome.PreconditionFailed, &RemoveSemaphore{Node: 1, Semaphore: 1})
	// it is ephemeral
	r.administer(outcome.PreconditionFailed, &RemoveSemaphore{Node: 1, Semaphore: 2, Force: true})
	r.administer(outcome.NotFound, &RemoveSemaphore{Node: 1, Semaphore: 3, Force: true})
	r.expect()
	r.administer(outcome.Success, &RemoveSemaphore{Node: 1, Semaphore: 1, Force: true})
	r.expect(fmt.Sprintf("%d #1 Semaphore destroyed", waiter),
		fmt.Sprintf("%d #2 changed data=true owners=true", waiter))
	r.request(owner, 4, create)
	r.applyAll()
	// another one has the name now
	r.administer(outcome.NotFound, &RemoveSemaphore{Node: 1, Semaphore: 1, Force: true})
	r.administer(outcome.Success, &RemoveSemaphore{Node: 1, Semaphore: 3})
}

// A semaphore whose owner has changed since the caller looked is not removed: that is judged where the command is
// executed.
func TestRemoveSemaphoreAsSeen(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	owner, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	next, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.request(owner, 1, Request{Kind: RequestCreate, Name: "s", Limit: 1})
	free := &RemoveSemaphore{Node: 1, Semaphore: 1, Force: true, Seen: true}
	r.request(owner, 2, Request{Kind: RequestAcquire, Name: "s", Count: 1})
	r.applyAll()
	r.administer(outcome.PreconditionFailed, free)
	seen := &RemoveSemaphore{Node: 1, Semaphore: 1, Force: true, Seen: true, Owner: OrderOf(r.machine, 1, 1, 0)}
	r.request(next, 1, Request{Kind: RequestAcquire, Name: "s", Count: 1, TimeoutMillis: Infinite})
	r.request(owner, 3, Request{Kind: RequestRelease, Name: "s"}) // proposed, but not executed
	r.administer(outcome.PreconditionFailed, seen)
	seen.Owner = OrderOf(r.machine, 1, 1, 0)
	r.administer(outcome.Success, seen)
}

// Both need the right to erase rows, or to be an administrator.
func TestEndSessionAndRemoveSemaphoreAreAuthorized(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	r.administer(outcome.Success, &AddUser{Name: "root", PasswordHash: "h"})
	grant := func(subject string, names ...string) {
		r.administer(outcome.Success, &ModifyPermissions{Path: pathOf("/local/n"),
			Change: scheme.PermissionsChange{
				Actions: []scheme.Action{{Kind: scheme.Grant, Subject: subject, Names: names}}}})
	}
	grant("eraser", "ydb.granular.erase_row")
	grant("writer", "ydb.granular.select_row", "ydb.granular.update_row")
	for subject, may := range map[string]bool{"": false, "writer": false, "eve": false, "eraser": true,
		"root": true} {
		stream, session := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		r.request(stream, 1, Request{Kind: RequestCreate, Name: "s " + subject, Limit: 1})
		r.applyAll()
		id := r.machine.nodes[1].semaphores["s "+subject].id
		want := outcome.Unauthorized
		if may {
			want = outcome.Success
		}
		by := Caller{Subject: subject, Enforced: true}
		r.administer(want, &RemoveSemaphore{Caller: by, Node: 1, Semaphore: id})
		r.administer(want, &EndSession{Caller: by, Node: 1, Session: session})
	}
}
