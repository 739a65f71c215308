package standin

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAdvanceEndsASession without its client, and the lock passes on, in that order and not before.
func TestAdvanceEndsASession(t *testing.T) {
	for name, options := range map[string][]Option{"alone": nil, "cluster": {Servers(3)}} {
		t.Run(name, func(t *testing.T) {
			s, conn := began(t, append(options, FakeTime())...)
			last := len(s.members) - 1
			first, second := open(t, conn, node, 10*time.Second, 0),
				open(t, connect(t, s, last), node, 10*time.Second, 0)
			first.locked("lock")
			second.waits("lock", time.Hour)
			first.drop()
			eventually(t, "the client to be gone", func() bool { return !s.Sessions(node)[0].Attached })
			left := s.Sessions(node)[0].Left
			if events := s.Advance(left - time.Millisecond); len(events) != 0 ||
				s.AwaitOwners(node, "lock", 1)[0].Session != first.id {
				t.Errorf("too early:\n%s", kinds(events))
			}
			events := s.Advance(time.Millisecond)
			want := `session expired: session 1 of /local/locks, after 1ms
lock lost: session 1, semaphore "lock" of /local/locks, after 1ms
lock granted: session 2, semaphore "lock" of /local/locks, after 1ms`
			if got := kinds(events); sortedLines(got) != sortedLines(want) {
				t.Errorf("events\n%s", got)
			}
			if !second.next().GetAcquireSemaphoreResult().GetAcquired() {
				t.Error("the next one has no lock")
			}
			if s.Elapsed() != left {
				t.Errorf("%v have passed, want %v", s.Elapsed(), left)
			}
		})
	}
}

func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text+"\n")), "")
}

// TestAdvanceEndsWaits in the order in which they would have ended.
func TestAdvanceEndsWaits(t *testing.T) {
	s, conn := began(t, FakeTime())
	first, second, third := open(t, conn, node, long, 0), open(t, conn, node, long, 0),
		open(t, conn, node, long, 0)
	first.locked("lock")
	second.waits("lock", 20*time.Minute)
	third.waits("lock", 10*time.Minute)
	got := kinds(s.Advance(30 * time.Minute))
	const want = `wait ended: session 3, semaphore "lock" of /local/locks, after 10m0s
wait ended: session 2, semaphore "lock" of /local/locks, after 20m0s`
	if got != want {
		t.Errorf("events\n%s", got)
	}
	for _, c := range []*client{second, third} {
		if m := c.next().GetAcquireSemaphoreResult(); m == nil || m.GetAcquired() {
			t.Errorf("waited for %v", m)
		}
	}
	if first.pinged() < 30*60/20 {
		t.Errorf("pinged %d times in half an hour", first.pinged())
	}
}

// TestAdvanceOverTenMinutes of session timeouts, with a client that keeps its session all the time. Its duration by the
// real clock is only logged.
func TestAdvanceOverTenMinutes(t *testing.T) {
	s, conn := began(t, FakeTime())
	keeps := open(t, conn, node, 5*time.Second, 0)
	keeps.locked("kept")
	begun, expired := time.Now(), 0
	for s.Elapsed() < 10*time.Minute {
		c := open(t, conn, node, 5*time.Second, 0)
		c.locked("lock")
		c.drop()
		eventually(t, "the client to be gone", func() bool { return !s.Sessions(node)[1].Attached })
		for _, e := range s.Advance(s.Sessions(node)[1].Left) {
			if e.Kind == SessionExpired {
				expired++
			}
		}
		s.AwaitOwners(node, "lock", 0)
	}
	t.Logf("%d sessions have timed out in %v, which took %v", expired, s.Elapsed(), time.Since(begun))
	if sessions := s.Sessions(node); len(sessions) != 1 || sessions[0].ID != keeps.id ||
		!sessions[0].Attached {
		t.Errorf("sessions %+v", sessions)
	}
}

// TestAdvanceFindsSilence: a client that does not answer loses its session; it is waited for once.
func TestAdvanceFindsSilence(t *testing.T) {
	s, conn := began(t, FakeTime(), PongPatience(3*time.Second))
	talks, silent := open(t, conn, node, 6*time.Second, 0), open(t, conn, node, 6*time.Second, 0)
	s.Advance(time.Second)
	silent.silence()
	got := kinds(s.Advance(time.Minute))
	if !strings.Contains(got, "session detached: session 2") ||
		!strings.Contains(got, "session expired: session 2") {
		t.Errorf("events\n%s", got)
	}
	if m := silent.next().GetFailure(); m == nil {
		t.Error("the silent client is told nothing")
	}
	if sessions := s.Sessions(node); len(sessions) != 1 || sessions[0].ID != talks.id {
		t.Errorf("sessions %+v", sessions)
	}
}

// TestStoppedTime: nothing times out while time stands still, but clients are pinged by the real clock, and a
// start that fails is answered.
func TestStoppedTime(t *testing.T) {
	s, conn := began(t, FakeTime())
	c := open(t, conn, node, 100*time.Millisecond, 0)
	eventually(t, "pings by the real clock", func() bool { return c.pinged() > 5 })
	c.drop()
	eventually(t, "the client to be gone", func() bool { return !s.Sessions(node)[0].Attached })
	time.Sleep(300 * time.Millisecond)
	if again := open(t, conn, node, 100*time.Millisecond, c.id); again.id != c.id {
		t.Errorf("session %d, want %d", again.id, c.id)
	}
	if gone := begin(t, conn, node, long, 77); gone.next().GetFailure() == nil {
		t.Error("a session that is not there goes on")
	}
}

// TestNobodyIsRemindedWhileTimeIsTurned: a ping by the real clock that goes out behind Advance's look at what
// clients have to answer would be overdue behind its next leap, and the client silent. Before and afterwards
// such pings come.
func TestNobodyIsRemindedWhileTimeIsTurned(t *testing.T) {
	s, conn := began(t, FakeTime())
	var asked atomic.Int64
	reminds := s.members[0].hooks.Remind
	s.members[0].hooks.Remind = func() bool {
		asked.Add(1)
		return reminds()
	}
	s.Restart()
	c := open(t, conn, node, 100*time.Millisecond, 0)
	eventually(t, "pings by the real clock", func() bool { return c.pinged() > 1 })
	turned := false
	s.clock.AfterFunc(time.Millisecond, func() { // between two looks
		turned = true
		c.silence() // so that what the server asks cannot be overlooked
		before := asked.Load()
		eventually(t, "the reminder to come by", func() bool { return asked.Load() > before+2 })
		if left := s.groups()[0].Still().Unanswered; len(left) > 0 {
			t.Errorf("pinged while time is turned: %+v", left)
		}
		c.speakAgain()
	})
	if s.Advance(2 * time.Millisecond); !turned {
		t.Error("the timer has not run out")
	}
	before := c.pinged()
	eventually(t, "pings by the real clock", func() bool { return c.pinged() > before })
}

// TestAdvanceGoesOnBehindARestart: time does.
func TestAdvanceGoesOnBehindARestart(t *testing.T) {
	s, conn := began(t, FakeTime())
	open(t, conn, node, 10*time.Second, 0)
	s.Advance(time.Hour)
	s.Restart()
	if len(s.Sessions(node)) != 1 {
		t.Fatalf("dump\n%s", s.Dump())
	}
	if got := kinds(s.Advance(time.Minute)); !strings.Contains(got, "session expired: session 1") {
		t.Errorf("events\n%s", got)
	}
}

// TestAdvanceOneAtATime refuses the second, and time that goes back.
func TestAdvanceOneAtATime(t *testing.T) {
	s := Start(t, FakeTime())
	s.advancing.Lock()
	if _, err := s.advance(1); err != errAdvancing {
		t.Error(err)
	}
	s.advancing.Unlock()
	if _, err := s.advance(-1); err == nil {
		t.Error("time went back")
	}
}

// TestClock runs timers out in their order.
func TestClock(t *testing.T) {
	var c clock
	var mutex sync.Mutex
	var ran []int
	after := func(n int, d time.Duration) func() {
		return func() {
			mutex.Lock()
			defer mutex.Unlock()
			ran = append(ran, n)
			if d != 0 {
				c.AfterFunc(d, func() { ran = append(ran, n+10) })
			}
		}
	}
	c.AfterFunc(3, after(3, 0))
	c.AfterFunc(1, after(1, 1))
	c.AfterFunc(1, after(2, 0))
	stopped := c.AfterFunc(2, after(9, 0))
	moved := c.AfterFunc(1, after(4, 0))
	if !stopped.Stop() || stopped.Stop() || !moved.Reset(5) {
		t.Error("a timer that ran did not")
	}
	for moments := 0; c.turn(4); moments++ {
		if now := []int64{1, 2, 3}[moments]; int64(c.Now()) != now {
			t.Errorf("at %d, want %d", c.Now(), now)
		}
	}
	if c.Now() != 4 {
		t.Errorf("at %d in the end", c.Now())
	}
	for c.turn(9) {
	}
	if got, want := len(ran), 5; got != want || ran[0] != 1 || ran[1] != 2 || ran[2] != 11 || ran[3] != 3 ||
		ran[4] != 4 {
		t.Errorf("ran %v", ran)
	}
}
