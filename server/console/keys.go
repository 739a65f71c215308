package console

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// keyLifetime is the time within which a key can be used.
	keyLifetime = 5 * time.Minute
	// maxRemembered bounds the keys, and the tokens. Those that end first make room.
	maxRemembered = 1000
)

// keys are the keys that can be used, the tokens that were given for others, and the users' tokens that were signed
// out. They are in memory alone, by their digests. The zero value is empty.
type keys struct {
	mutex  sync.Mutex
	now    func() time.Time // nil: time.Now
	unused map[digest]remembered
	tokens map[digest]remembered
}

type digest [sha256.Size]byte

type remembered struct {
	until time.Time
	good  bool // a token of an administrator
}

func (k *keys) newKey() string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	key := rand.Text()
	k.remember(&k.unused, key, remembered{k.time().Add(keyLifetime), true})
	return key
}

// exchange returns an administrator's token for a key, "" if the key cannot be used or was used before.
func (k *keys) exchange(key string, lifetime time.Duration) (token string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	at := sha256.Sum256([]byte(key))
	found := k.unused[at]
	delete(k.unused, at)
	if !k.time().Before(found.until) {
		return ""
	}
	token = rand.Text()
	k.remember(&k.tokens, token, remembered{k.time().Add(lifetime), true})
	return token
}

// find returns until when a token is remembered; zero if it is not. It is an administrator's, or it was signed out.
func (k *keys) find(token string) (until time.Time, administrator bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	found := k.tokens[sha256.Sum256([]byte(token))]
	if !k.time().Before(found.until) {
		return time.Time{}, false
	}
	return found.until, found.good
}

// end makes a token useless.
func (k *keys) end(token string, until time.Time) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.remember(&k.tokens, token, remembered{until: until})
}

// remember adds an entry. The mutex is held.
func (k *keys) remember(in *map[digest]remembered, secret string, r remembered) {
	if *in == nil {
		*in = make(map[digest]remembered)
	}
	(*in)[sha256.Sum256([]byte(secret))] = r
	if len(*in) <= maxRemembered {
		return
	}
	var first digest
	for at, other := range *in {
		if (*in)[first].until.IsZero() || other.until.Before((*in)[first].until) {
			first = at
		}
	}
	delete(*in, first)
}

func (k *keys) time() time.Time {
	if k.now != nil {
		return k.now()
	}
	return time.Now()
}
