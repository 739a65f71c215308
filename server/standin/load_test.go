package standin

import (
	"strings"
	"testing"
)

// TestLoad makes what a dump shows, however often, and leaves out who lives by a client.
func TestLoad(t *testing.T) {
	const fixture = `# what the tests begin with
workers

/local/locks
  semaphore "config": 2 of 3, "v1\xff, ephemeral, \"x\""
    owner: session 1, order id 1, 2, "mine"
  semaphore "a: 0 of 1": 0 of all
  semaphore "lock": all of all, ephemeral
    owner: session 1, order id 2, all
    waiter: session 2, order id 3, all, for 1h0m0s, "next"
  semaphore "other": all of all, ephemeral, "data"
  session 1: timeout 1m0s, "worker"
`
	const want = `/local/workers
/local/locks
  semaphore "config": 0 of 3, "v1\xff, ephemeral, \"x\""
  semaphore "a: 0 of 1": 0 of all
`
	for name, options := range map[string][]Option{"in real time": nil, "in fake time": {FakeTime()},
		"with users": {Users(User{Name: "root", Password: "r", Administrator: true})}} {
		t.Run(name, func(t *testing.T) {
			s := Start(t, append(options, Patience(waitMax))...)
			s.Load(fixture)
			if got := s.Dump(); got != want {
				t.Errorf("dump\n%s", got)
			}
			s.RestartEmpty()
			s.Load(want)
			if got := s.Dump(); got != want {
				t.Errorf("dump\n%s", got)
			}
			if again := Start(t, Fixture(want)).Dump(); again != want {
				t.Errorf("dump\n%s", again)
			}
		})
	}
}

// TestLoadRefuses what it cannot read, and then does nothing.
func TestLoadRefuses(t *testing.T) {
	s := Start(t)
	for line, want := range map[string]string{
		`  semaphore "x": 0 of 1`:                                 "line 1: want the path",
		"a\n  lock x":                                             "line 2: want a semaphore",
		"a\n  semaphore x: 0 of 1":                                "line 2: want a semaphore",
		"a\n  semaphore \"x\" 0 of 1":                             "line 2: want a semaphore",
		"a\n  semaphore \"x\": 1":                                 "line 2: want a semaphore",
		"a\n  semaphore \"x\": 0 of many":                         "line 2: want a semaphore",
		"a\n  semaphore \"x\": 0 of 1, v":                         "line 2: want a semaphore",
		"b\n  semaphore \"x\": 0 of 1\n  semaphore \"x\": 0 of 1": "ALREADY_EXISTS",
		"c\n  semaphore \"x\": 0 of 0":                            "BAD_REQUEST",
	} {
		f := new(failing)
		f.run(func() { s.In(f).Load(line) })
		if !strings.Contains(f.text, want) {
			t.Errorf("%q: failed with %q", line, f.text)
		}
	}
	if got := s.Dump(); strings.Contains(got, "/local/a") {
		t.Errorf("dump\n%s", got)
	}
	if s, err := Run(t.Context(), Fixture("  x")); err == nil {
		s.Stop()
		t.Error("a fixture is taken that cannot be read")
	}
}

// TestClientOfATest competes with a client of the protocol.
func TestClientOfATest(t *testing.T) {
	s, conn := began(t)
	mine := s.Client("locks")
	if !mine.Acquire("lock", Exclusive) {
		t.Fatal("the lock is not free")
	}
	theirs := open(t, conn, node, long, 0)
	theirs.waits("lock", waitMax)
	third := s.Client(node)
	third.Queue("lock", Exclusive)
	s.AwaitWaiters(node, "lock", 2)
	if third.Acquire("lock", Exclusive) || s.AwaitOwners(node, "lock", 1)[0].Session != mine.ID {
		t.Errorf("dump\n%s", s.Dump())
	}
	if !mine.Release("lock") || mine.Release("lock") {
		t.Error("released once and twice are the same")
	}
	if !theirs.next().GetAcquireSemaphoreResult().GetAcquired() {
		t.Error("not acquired")
	}
	mine.Create("config", 2, []byte("v1"))
	mine.Update("config", []byte("v2"))
	if got := string(s.Data(node, "config")); got != "v2" {
		t.Errorf("data %q", got)
	}
	mine.Delete("config", false)
	f := new(failing)
	f.run(func() { s.In(f).Client(node).Update("config", nil) })
	if !strings.Contains(f.text, "NOT_FOUND") {
		t.Errorf("failed with %q", f.text)
	}
	for range 200 { // the stream ends right behind its refusal, which must not be lost
		f.run(func() { s.In(f).Client("nowhere") })
		if !strings.Contains(f.text, "NOT_FOUND") {
			t.Fatalf("failed with %q", f.text)
		}
	}
	mine.Stop()
	s.AwaitNoSession(node, mine.ID)
	s.ExpireSession(node, third.ID)
	s.AwaitNoSession(node, third.ID)
	f.run(func() {
		(&Client{ID: third.ID, talk: third.talk, server: s.In(f), path: third.path}).Acquire("lock", 1)
	})
	if !strings.Contains(f.text, errStreamEnded.Error()) || !strings.Contains(f.text, "There is:") {
		t.Errorf("failed with %q", f.text)
	}
	dies := s.Client(node)
	dies.Vanish()
	eventually(t, "the client to be gone", func() bool {
		for _, other := range s.Sessions(node) {
			if other.ID == dies.ID {
				return !other.Attached
			}
		}
		return false
	})
	if requests := s.Requests(); len(requests) != 3 { // of the client of the protocol
		t.Errorf("requests %+v", requests)
	}
}

// TestClientSharesAfterRestart: a client shares an ephemeral semaphore with another one, and has it after a restart.
func TestClientSharesAfterRestart(t *testing.T) {
	s := Start(t, Fixture("services\n"))
	first, second := s.Client("services"), s.Client("services")
	for n, c := range []*Client{first, second} {
		if !c.Share("web", 1, []byte{byte(n)}) {
			t.Fatal("not shared")
		}
	}
	s.Restart()
	owners := s.AwaitOwners("services", "web", 2)
	if !first.Release("web") || !second.Share("web", 1, []byte("new")) {
		t.Error("a client has lost its session")
	}
	if got := s.AwaitOwners("services", "web", 1); string(got[0].Data) != "new" || got[0].Session != second.ID {
		t.Errorf("owners %v and then %v", owners, got)
	}
	first.Stop()
	s.AwaitNoSession("services", first.ID)
}
