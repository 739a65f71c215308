package readiness

import (
	"testing"
	"time"
)

// A server that is not ready stays so until it has a leader; only one that is shown as ready hides an election for a
// moment.
func TestElectionIsHiddenFromReadyToReady(t *testing.T) {
	w := new(Watch)
	noLeader, keptOut := Issue{Kind: IssueNoLeader, Gravity: Fatal}, Issue{Kind: IssueKeptOut, Gravity: Fatal}
	long := time.Now().Add(-2 * longElection)
	for _, step := range []struct {
		shown, now Issue
		leaderless time.Time
		hidden     bool
	}{
		{shown: issueStarting, now: noLeader},
		{shown: Issue{}, now: noLeader, hidden: true},
		{shown: Issue{}, now: noLeader, leaderless: long},
		{shown: Issue{}, now: keptOut},
		{shown: keptOut, now: noLeader}, // its members are there again, and have no leader yet
		{shown: noLeader, now: noLeader},
		{shown: Issue{Kind: IssueMute, Gravity: Fatal}, now: noLeader},
	} {
		w.shown.Store(&shown{worst: step.shown})
		if got := w.showable(step.now, &step.leaderless); (got.Gravity != Fatal) != step.hidden {
			t.Errorf("shown as %q, now %q: %+v", step.shown.Kind, step.now.Kind, got)
		}
	}
}

func TestSilence(t *testing.T) {
	var mute silence
	mute.note(true)
	if mute.long() {
		t.Error("it has been mute for long at once")
	}
	before := mute.since.Load()
	if mute.note(true); mute.since.Load() != before {
		t.Error("it is mute since later")
	}
	if mute.note(false); mute.since.Load() != nil {
		t.Error("it is mute for ever")
	}
}

func TestContact(t *testing.T) {
	var c contact
	if c.lost(0) {
		t.Error("lost before anybody has looked")
	}
	c.note(false)
	if c.lost(time.Hour) {
		t.Error("lost at the start")
	}
	past := time.Now().Add(-contactPatience - time.Second)
	c.last.Store(&past)
	c.note(false)
	if !c.lost(contactPatience) {
		t.Error("not lost after too long")
	}
	c.note(true)
	if c.lost(contactPatience) {
		t.Error("lost although there is a leader")
	}
}
