package auth

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
)

func verify(t *testing.T, h *Hasher, password, stored string) (bool, error) {
	return h.verify(t.Context(), "", false, password, stored, func() error { return nil }, func(bool) {})
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

// takeAll takes every slot.
func (h *Hasher) takeAll(t *testing.T) {
	t.Helper()
	for range maxHashesAtOnce {
		if _, err := h.slots.acquire(t.Context(), "", true); err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until so many wait in a line.
func (h *Hasher) await(t *testing.T, known bool, n int) {
	t.Helper()
	for {
		h.slots.mutex.Lock()
		waiting := h.slots.lines[lineOf(known)].waiting
		h.slots.mutex.Unlock()
		if waiting == n {
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
	h.await(t, true, maxHashesWaiting)
	if _, err := h.Hash(t.Context(), "x"); !errors.Is(err, ErrOverloaded) {
		t.Errorf("one more: got %v", err)
	}
	cancel()
	for range maxHashesWaiting {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	h.await(t, true, 0)
	if len(h.slots.lines[lineOf(true)].sources) != 0 {
		t.Error("something is left in the line")
	}
}
