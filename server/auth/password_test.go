package auth

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/coordd/coordd/server/share"
)

func verify(t *testing.T, h *Hasher, password, stored string) (bool, error) {
	return h.verify(t.Context(), share.Subject{}, password, stored, func() error { return nil }, func(bool) {})
}

func TestPasswordHashes(t *testing.T) {
	h := NewHasher()
	stored, err := h.Hash(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := h.Hash(t.Context(), "secret"); again == stored ||
		!strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("got %q and %q", stored, again)
	}
	for password, want := range map[string]bool{"secret": true, "Secret": false, "": false,
		"secret ": false} {
		if got, err := verify(t, h, password, stored); got != want || err != nil {
			t.Errorf("%q: got %v, %v", password, got, err)
		}
	}
	if got, err := verify(t, h, "", ""); got || err != nil {
		t.Errorf("a user who is not there: got %v, %v", got, err)
	}
	for _, broken := range []string{"x", "$argon2i$v=19$m=1,t=1,p=1$AA$AA",
		"$argon2id$v=18$m=1,t=1,p=1$AA$AA", "$argon2id$v=19$m=1,t=0,p=1$AA$AA",
		"$argon2id$v=19$m=1,t=1,p=1$!$AA", "$argon2id$v=19$m=1,t=1,p=1$AA$"} {
		if got, err := verify(t, h, "secret", broken); got || !errors.Is(err, ErrStoredHash) {
			t.Errorf("%q: got %v, %v", broken, got, err)
		}
	}
	if _, err := h.Hash(t.Context(), strings.Repeat("x", maxPasswordBytes)); err != nil {
		t.Errorf("the longest password: %v", err)
	}
	for _, password := range []string{"", strings.Repeat("x", maxPasswordBytes+1)} {
		if _, err := h.Hash(t.Context(), password); !errors.Is(err, ErrPasswordLength) {
			t.Errorf("%d bytes: got %v", len(password), err)
		}
	}
}

// takeAll takes every place. What it returns gives one of them back.
func (h *Hasher) takeAll(t *testing.T) (release func()) {
	t.Helper()
	for range maxHashesAtOnce {
		var err error
		if release, err = h.line.Acquire(t.Context(), share.Subject{Class: share.Known}); err != nil {
			t.Fatal(err)
		}
	}
	return release
}

// await waits until so many wait in a line.
func (h *Hasher) await(t *testing.T, class share.Class, n int) {
	t.Helper()
	for {
		if h.line.Waiting(share.Subject{Class: class}) == n {
			return
		}
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// TestHashingIsBounded: with all slots taken, hashes wait up to a number, and only as long as their callers
// do.
func TestHashingIsBounded(t *testing.T) {
	h := NewHasher()
	h.takeAll(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxHashesWaiting)
	for range maxHashesWaiting {
		go func() {
			_, err := h.Hash(ctx, "x")
			ended <- err
		}()
	}
	h.await(t, share.Known, maxHashesWaiting)
	if _, err := h.Hash(t.Context(), "x"); !errors.Is(err, ErrOverloaded) {
		t.Errorf("one more: got %v", err)
	}
	cancel()
	for range maxHashesWaiting {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	h.await(t, share.Known, 0)
}
