package console

import (
	"fmt"
	"testing"
	"time"
)

// TestKeys: a key is good once, and for a while; so is the token that it gives.
func TestKeys(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	k := &keys{now: func() time.Time { return now }}
	key := k.newKey()
	if k.exchange("", time.Hour) != "" || k.exchange(key+" ", time.Hour) != "" {
		t.Error("another key is good")
	}
	token := k.exchange(key, time.Hour)
	if until, administrator := k.find(token); !administrator || !until.Equal(now.Add(time.Hour)) {
		t.Errorf("%v until %s", administrator, until)
	}
	if k.exchange(key, time.Hour) != "" {
		t.Error("a key is good twice")
	}
	key = k.newKey()
	now = now.Add(keyLifetime)
	if k.exchange(key, time.Hour) != "" {
		t.Error("a key is good when it is old")
	}
	k.end("another token", now.Add(time.Hour))
	if until, administrator := k.find("another token"); administrator || until.IsZero() {
		t.Error("an ended token is not remembered")
	}
	now = now.Add(time.Hour)
	if until, administrator := k.find(token); administrator || !until.IsZero() {
		t.Error("a token is good when it is old")
	}
}

// TestKeysAreBounded: the keys that end first make room.
func TestKeysAreBounded(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	k := &keys{now: func() time.Time { now = now.Add(time.Millisecond); return now }}
	first := k.newKey()
	second := k.newKey()
	for range maxRemembered - 1 {
		k.newKey()
	}
	if len(k.unused) != maxRemembered || k.exchange(first, time.Hour) != "" || k.exchange(second, time.Hour) == "" {
		t.Errorf("there are %d keys, or not those that end last", len(k.unused))
	}
}

// TestSignOutsEndNoOtherToken: however many users sign out, an administrator stays signed in.
func TestSignOutsEndNoOtherToken(t *testing.T) {
	k := &keys{}
	token := k.exchange(k.newKey(), time.Hour)
	for i := range maxRemembered + 1 {
		k.end(fmt.Sprint("token ", i), time.Now().Add(2*time.Hour))
	}
	if _, administrator := k.find(token); !administrator || len(k.ended) != maxRemembered {
		t.Errorf("an administrator is signed in: %t, %d tokens are remembered", administrator, len(k.ended))
	}
	k.end(token, time.Now().Add(time.Hour))
	if until, administrator := k.find(token); administrator || until.IsZero() {
		t.Error("a token is good after its end")
	}
}
