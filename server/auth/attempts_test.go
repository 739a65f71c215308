package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/coordd/coordd/server/share"
)

// atClock is attempts whose time the test makes pass.
func atClock() (*attempts, *time.Time) {
	a, now := newAttempts(), time.Unix(1_700_000_000, 0)
	a.now = func() time.Time { return now }
	return a, &now
}

func (a *attempts) waits(attempt Attempt) time.Duration {
	var wait *WaitError
	if errors.As(a.wait(attempt), &wait) {
		return wait.Wait
	}
	return 0
}

// TestBackOff: the wait doubles with each wrong password, is for that user from that source alone, and ends.
func TestBackOff(t *testing.T) {
	a, now := atClock()
	eve, ann, same := Attempt{"ann", "10.0.0.66"}, Attempt{"ann", "10.0.0.1"}, Attempt{"bob", "10.0.0.66"}
	for i := range freeAttempts {
		if wait := a.waits(eve); wait != 0 {
			t.Fatalf("wait of %s after %d wrong ones", wait, i)
		}
		if a.note(eve, false) != (i == freeAttempts-1) {
			t.Errorf("the wait begins after %d", i+1)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := a.waits(eve); got != want*time.Second {
			t.Fatalf("wait of %s, want %d s", got, want)
		}
		*now = now.Add(want*time.Second - 1)
		if a.waits(eve) != 1 {
			t.Error("it is over too early")
		}
		*now = now.Add(1)
		if a.waits(eve) != 0 {
			t.Error("it is not over")
		}
		a.note(eve, false)
	}
	if a.waits(ann) != 0 || a.waits(same) != 0 {
		t.Error("somebody else has to wait")
	}
	*now = now.Add(attemptsForgotten)
	if a.waits(eve) != 0 || a.note(eve, false) || a.waits(eve) != 0 {
		t.Error("it is not forgotten")
	}
}

// TestKnownSourceNeverWaits: a source that has shown the right password may be shared with others who guess.
func TestKnownSourceNeverWaits(t *testing.T) {
	a, _ := atClock()
	shared := Attempt{"ann", "10.0.0.1"}
	a.note(shared, true)
	for range 100 {
		a.note(shared, false)
	}
	if a.waits(shared) != 0 || !a.known(shared) {
		t.Error("it has to wait")
	}
	if a.known(Attempt{"bob", "10.0.0.1"}) || a.known(Attempt{"ann", "10.0.0.2"}) {
		t.Error("others are known as well")
	}
}

// TestAttemptsAreBounded wants the oldest forgotten, and no name that nobody can have remembered.
func TestAttemptsAreBounded(t *testing.T) {
	a, _ := atClock()
	first := Attempt{"user 0", "source 0"}
	for i := range maxPairs + 1 {
		of := Attempt{fmt.Sprint("user ", i), fmt.Sprint("source ", i)}
		a.note(of, false)
		a.note(of, true)
		a.note(of, false)
	}
	if len(a.wrong.entries) != maxPairs || a.wrong.order.Len() != maxPairs ||
		len(a.right.entries) != maxPairs || a.right.order.Len() != maxPairs {
		t.Errorf("%d and %d are remembered", len(a.wrong.entries), len(a.right.entries))
	}
	if a.known(first) {
		t.Error("the first one is still known")
	}
	long := strings.Repeat("x", 100_000)
	a.note(Attempt{long, "2001:db8:ffff::/48"}, false)
	for _, r := range []map[Attempt]int{sizes(&a.wrong), sizes(&a.right)} {
		for key, size := range r {
			if size > maxPairBytes {
				t.Errorf("%.20s of %d bytes is remembered", key.User, size)
			}
		}
	}
}

// TestWaitingPairsStay has wrong passwords of many other users and sources come: who has to wait, waits on. A
// source that tries too many names waits for all others, and another source for none.
func TestWaitingPairsStay(t *testing.T) {
	a, now := atClock()
	eve := Attempt{"root", "10.0.0.66"}
	for range freeAttempts {
		a.note(eve, false)
	}
	for i := range maxPairs {
		a.note(Attempt{"root", fmt.Sprint("source ", i)}, false)
	}
	for i := range maxPairsOfSource + freeAttempts - 1 {
		a.note(Attempt{fmt.Sprint("user ", i), eve.Source}, false)
	}
	if a.waits(eve) == 0 {
		t.Error("the pair is forgotten")
	}
	next := Attempt{"the next user", eve.Source}
	if a.waits(next) == 0 {
		t.Error("one more name is tried without a wait")
	}
	if a.waits(Attempt{next.User, "10.0.0.1"}) != 0 || a.waits(Attempt{"user 0", eve.Source}) != 0 {
		t.Error("somebody else has to wait")
	}
	*now = now.Add(attemptsForgotten)
	a.note(Attempt{"root", "10.0.0.1"}, false)
	if len(a.wrong.entries) != 1 || len(a.wrong.bySource) != 1 {
		t.Errorf("%d pairs are not forgotten", len(a.wrong.entries)-1)
	}
}

// TestImpossiblePasswords shows passwords that nobody can have: they are no guesses, and push no guesses out.
func TestImpossiblePasswords(t *testing.T) {
	a, err := New(true, "/local", "")
	if err != nil {
		t.Fatal(err)
	}
	impossible := strings.Repeat("x", maxPasswordBytes+1)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for i := range 1000 {
		right, err := a.CheckPassword(t.Context(), Attempt{fmt.Sprint("user ", i%200), "10.0.0.66"}, impossible, "",
			logger)
		if right || err != nil {
			t.Fatal(right, err)
		}
	}
	if len(a.attempts.wrong.entries) != 0 {
		t.Errorf("%d pairs are remembered", len(a.attempts.wrong.entries))
	}
	if lines := strings.Count(log.String(), "\n"); lines > 10 {
		t.Errorf("%d lines are logged", lines)
	}
}

// TestWaitsAreToldRarely has a source wait for many users one after the other.
func TestWaitsAreToldRarely(t *testing.T) {
	a, err := New(true, "/local", "")
	if err != nil {
		t.Fatal(err)
	}
	a.Passwords = NewCheapHasher(64)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for i := range 50 * freeAttempts {
		if _, err := a.CheckPassword(t.Context(), Attempt{fmt.Sprint("user ", i/freeAttempts), "10.0.0.66"}, "wrong",
			"",
			logger); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(log.String(), "have to wait"); lines == 0 || lines > 10 {
		t.Errorf("%d lines are logged", lines)
	}
}

// TestGuessesLeaveAPlace: who guesses a password from a source where the user has logged in has one place to hash,
// and other users the other.
func TestGuessesLeaveAPlace(t *testing.T) {
	a, err := New(true, "/local", "")
	if err != nil {
		t.Fatal(err)
	}
	ann, bob := Attempt{"ann", "10.0.0.1"}, Attempt{"bob", "10.0.0.1"}
	a.attempts.note(ann, true)
	a.attempts.note(bob, true)
	if _, err := a.Passwords.line.Acquire(t.Context(), a.attempts.subject(ann)); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Passwords.line.Acquire(over, a.attempts.subject(ann)); err == nil {
		t.Error("there are two places for one user")
	}
	if _, err := a.Passwords.line.Acquire(t.Context(), a.attempts.subject(bob)); err != nil {
		t.Error(err)
	}
}

func sizes[V any](r *recent[V]) map[Attempt]int {
	found := make(map[Attempt]int)
	for key := range r.entries {
		found[key] = len(key.User) + len(key.Source)
	}
	return found
}

// TestSourceOf is how addresses are counted.
func TestSourceOf(t *testing.T) {
	for address, want := range map[net.Addr]string{
		&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 7}:            "192.0.2.1",
		&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.1"), Port: 7}:     "192.0.2.1",
		&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3:4:5:6"), Port: 7}: "2001:db8:1::/48",
		&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}:         "fe80::/48",
		&net.UnixAddr{Net: "unix"}:                                     "local",
	} {
		if got := SourceOf(peer.NewContext(t.Context(), &peer.Peer{Addr: address})); got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}

// TestWaitIsLookedAtAgain: of many wrong passwords that come at once, those that wait for a slot are
// refused without a hash as soon as there were too many.
func TestWaitIsLookedAtAgain(t *testing.T) {
	a, err := New(true, "/local", "")
	if err != nil {
		t.Fatal(err)
	}
	a.attempts, _ = atClock() // so that no wait is over
	stored, err := a.Passwords.Hash(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	release := a.Passwords.takeAll(t)
	const n = 4 * freeAttempts
	answers := make(chan error, n)
	for range n {
		go func() {
			right, err := a.CheckPassword(t.Context(), Attempt{"ann", "10.0.0.66"}, "wrong", stored,
				slog.New(slog.DiscardHandler))
			if right {
				err = errors.New("it is right")
			}
			answers <- err
		}()
	}
	a.Passwords.await(t, share.Unknown, n)
	release()
	hashed := 0
	for range n {
		var wait *WaitError
		if err := <-answers; err == nil {
			hashed++
		} else if !errors.As(err, &wait) || !strings.Contains(err.Error(), "try again in 1 s") {
			t.Errorf("got %v", err)
		}
	}
	if hashed != freeAttempts {
		t.Errorf("%d passwords were looked at, want %d", hashed, freeAttempts)
	}
	if right, err := a.CheckPassword(context.WithoutCancel(t.Context()), Attempt{"ann", "10.0.0.1"}, "secret",
		stored, slog.New(slog.DiscardHandler)); !right || err != nil {
		t.Errorf("the user herself: %v, %v", right, err)
	}
}
