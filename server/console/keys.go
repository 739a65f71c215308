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
	// maxRemembered bounds the keys, the tokens, and those that were signed out. Those that end first make room.
	maxRemembered = 1000
)

// keys are the keys that can be used, the tokens that were given for others, and the users' tokens that were signed
// out. They are in memory alone, by their digests. The zero value is empty.
type keys struct {
	mutex  sync.Mutex
	now    func() time.Time     // nil: time.Now
	unused map[digest]time.Time // until when they are remembered, as the others
	tokens map[digest]time.Time // of administrators
	ended  map[digest]time.Time
}

type digest [sha256.Size]byte

func (k *keys) newKey() string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	key := rand.Text()
	k.remember(&k.unused, key, k.time().Add(keyLifetime))
	return key
}

// exchange returns an administrator's token for a key, "" if the key cannot be used or was used before.
func (k *keys) exchange(key string, lifetime time.Duration) (token string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	at := sha256.Sum256([]byte(key))
	until := k.unused[at]
	delete(k.unused, at)
	if !k.time().Before(until) {
		return ""
	}
	token = rand.Text()
	k.remember(&k.tokens, token, k.time().Add(lifetime))
	return token
}

// find returns until when a token is remembered; zero if it is not. It is an administrator's, or it was signed out.
func (k *keys) find(token string) (until time.Time, administrator bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	at := sha256.Sum256([]byte(token))
	if until = k.ended[at]; k.time().Before(until) {
		return until, false
	}
	if until = k.tokens[at]; k.time().Before(until) {
		return until, true
	}
	return time.Time{}, false
}

// end makes a token useless.
func (k *keys) end(token string, until time.Time) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.tokens, sha256.Sum256([]byte(token)))
	k.remember(&k.ended, token, until)
}

// remember adds an entry. The mutex is held.
func (k *keys) remember(in *map[digest]time.Time, secret string, until time.Time) {
	if *in == nil {
		*in = make(map[digest]time.Time)
	}
	if len(*in) >= maxRemembered {
		var first digest
		for at, other := range *in {
			if (*in)[first].IsZero() || other.Before((*in)[first]) {
				first = at
			}
		}
		delete(*in, first)
	}
	(*in)[sha256.Sum256([]byte(secret))] = until
}

func (k *keys) time() time.Time {
	if k.now != nil {
		return k.now()
	}
	return time.Now()
}
