package auth

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/share"
)

const (
	// freeAttempts is how many wrong passwords of a user a source may show before it has to wait: firstWait,
	// twice that after the next one, and so on up to longestWait.
	freeAttempts = 5
	firstWait    = time.Second
	longestWait  = time.Minute
	// attemptsForgotten is how long after the last wrong password nothing is known of it any more.
	attemptsForgotten = 15 * time.Minute
	// maxPairs bounds the users and sources that are remembered, for their wrong passwords and for right
	// ones; those that were not heard of for the longest are forgotten, but none that has to wait. A pair has
	// at most maxPairBytes of text. A source has at most maxPairsOfSource with wrong passwords: further
	// names count as one.
	maxPairs         = 10_000
	maxPairsOfSource = 100
	maxPairBytes     = accounts.MaxUserNameBytes + len("ffff:ffff:ffff::/48")
)

// Attempt is a login before it is known whether the password is right.
type Attempt struct {
	User string
	// Source is where it comes from, see SourceOf.
	Source string
}

// WaitError says that a source has shown too many wrong passwords of a user and has to wait.
type WaitError struct{ Wait time.Duration }

// Error implements error.
func (e *WaitError) Error() string {
	return fmt.Sprintf("Too many wrong passwords from this address, try again in %d s",
		(e.Wait+time.Second-1)/time.Second)
}

// attempts remembers which source has shown wrong and right passwords of which user. What a stranger does
// elsewhere does not concern a user, and a source that has shown the right one before never waits: others may
// share it.
type attempts struct {
	now func() time.Time

	mutex sync.Mutex
	wrong recent[wrongOnes]
	right recent[struct{}]
}

type wrongOnes struct {
	count int
	last  time.Time
}

func newAttempts() *attempts { return &attempts{now: time.Now} }

// of is the key of an attempt. A user of that name cannot exist where it is too long.
func (a *attempts) of(attempt Attempt) Attempt {
	if len(attempt.User) > accounts.MaxUserNameBytes {
		attempt.User = ""
	}
	return attempt
}

// wrongOf is the key under which wrong passwords of an attempt count. The mutex is held.
func (a *attempts) wrongOf(attempt Attempt) Attempt {
	key := a.of(attempt)
	if _, found := a.wrong.entries[key]; !found && a.wrong.bySource[key.Source] >= maxPairsOfSource {
		key.User = ""
	}
	return key
}

// waits reports whether somebody has to wait because of these wrong passwords.
func (w wrongOnes) waits(now time.Time) bool {
	return w.count >= freeAttempts && now.Sub(w.last) < attemptsForgotten
}

// subject is who waits for a hash: the user where the source has shown the right password before, so that
// no more than a share is for guesses of one name.
func (a *attempts) subject(attempt Attempt) share.Subject {
	if a.known(attempt) {
		return share.Subject{Class: share.Known, Name: attempt.User}
	}
	return share.Subject{Class: share.Unknown, Name: attempt.Source}
}

// known reports whether the source has shown the right password of the user before.
func (a *attempts) known(attempt Attempt) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, known := a.right.get(a.of(attempt))
	return known
}

// wait is how long the source has to wait before it is looked at; nil: not at all.
func (a *attempts) wait(attempt Attempt) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	now := a.now()
	if _, known := a.right.get(a.of(attempt)); known {
		return nil
	}
	past, _ := a.wrong.get(a.wrongOf(attempt))
	if !past.waits(now) {
		return nil
	}
	wait := min(longestWait, firstWait<<min(past.count-freeAttempts, 10)) - now.Sub(past.last)
	if wait <= 0 {
		return nil
	}
	return &WaitError{wait}
}

// note takes down what came of an attempt. It reports whether the source has to wait from now on, and had not
// before.
func (a *attempts) note(attempt Attempt, right bool) (waitsNow bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	now := a.now()
	if right {
		key := a.of(attempt)
		a.wrong.forget(key)
		a.right.put(key, struct{}{}, nil)
		return false
	}
	key := a.wrongOf(attempt)
	past, _ := a.wrong.get(key)
	if now.Sub(past.last) >= attemptsForgotten {
		past.count = 0
	}
	a.wrong.drop(func(w wrongOnes) bool { return now.Sub(w.last) >= attemptsForgotten })
	a.wrong.put(key, wrongOnes{past.count + 1, now}, func(w wrongOnes) bool { return w.waits(now) })
	return past.count+1 == freeAttempts
}

// CheckPassword reports whether a user's password is the one that stored was made of; stored is empty where
// there is no such user. Errors: *WaitError, ErrOverloaded, ErrStoredHash, those of ctx.
func (a *Authenticator) CheckPassword(ctx context.Context, attempt Attempt, password, stored string,
	logger *slog.Logger) (right bool, err error) {
	defer func() {
		if !right && ctx.Err() == nil {
			a.tellRefused(ctx, attempt, stored != "", err, logger)
		}
	}()
	if err := a.attempts.wait(attempt); err != nil {
		return false, err
	}
	// Others may have shown wrong ones while this one waited for a slot.
	return a.Passwords.verify(ctx, a.attempts.subject(attempt), password, stored,
		func() error { return a.attempts.wait(attempt) },
		func(right bool) {
			if !a.attempts.note(attempt, right) {
				return
			}
			if ok, hidden := a.refusals.Allow("wait "+attempt.Source, a.attempts.now()); ok {
				logger.Warn("wrong passwords, the next ones have to wait", "user", attempt.name(stored != ""),
					"source", attempt.Source, lograte.Suppressed, hidden)
			}
		})
}

// name is the user of an attempt for the log. A name that nobody has may be a password in the wrong place.
func (a Attempt) name(exists bool) string {
	if !exists {
		return "(no such user)"
	}
	return lograte.Cut(a.User)
}

// tellRefused tells of logins that were refused, not each time.
func (a *Authenticator) tellRefused(ctx context.Context, attempt Attempt, exists bool, err error, logger *slog.Logger) {
	why := "wrong password"
	if err != nil {
		why = err.Error()
	}
	if ok, hidden := a.refusals.Allow("login "+attempt.Source, a.attempts.now()); ok {
		logger.Warn("a login was refused", "user", attempt.name(exists), "remote", remoteOf(ctx), "why", why,
			lograte.Suppressed, hidden)
	}
}

// TellRefusedToken tells of callers whose token was refused, not each time.
func (a *Authenticator) TellRefusedToken(ctx context.Context, err error, logger *slog.Logger) {
	if ok, hidden := a.refusals.Allow("token "+SourceOf(ctx), a.attempts.now()); ok {
		logger.Warn("a caller was refused", "remote", remoteOf(ctx), "why",
			lograte.Cut(status.Convert(err).Message()), lograte.Suppressed, hidden)
	}
}

// remoteOf is where a caller is, for the log.
func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && !FromSocket(ctx) {
		return p.Addr.String()
	}
	return SourceOf(ctx)
}

// recent is a map that forgets what was put or got the longest ago beyond maxPairs. The zero value is empty.
type recent[V any] struct {
	entries  map[Attempt]*list.Element
	bySource map[string]int // how many of them; sources without one are not in it
	order    list.List      // of *recentEntry[V], the latest first
}

type recentEntry[V any] struct {
	key   Attempt
	value V
}

func (r *recent[V]) get(key Attempt) (value V, found bool) {
	element, found := r.entries[key]
	if !found {
		return value, false
	}
	r.order.MoveToFront(element)
	return element.Value.(*recentEntry[V]).value, true
}

// put remembers a value, and forgets another one where there are too many: the oldest, but none that stays.
func (r *recent[V]) put(key Attempt, value V, stays func(V) bool) {
	r.forget(key)
	if r.entries == nil {
		r.entries, r.bySource = make(map[Attempt]*list.Element), make(map[string]int)
	}
	r.entries[key] = r.order.PushFront(&recentEntry[V]{key, value})
	r.bySource[key.Source]++
	if len(r.entries) <= maxPairs {
		return
	}
	oldest := r.order.Back()
	if stays != nil {
		for e := oldest; e != nil; e = e.Prev() {
			if !stays(e.Value.(*recentEntry[V]).value) {
				oldest = e
				break
			}
		}
	}
	r.forget(oldest.Value.(*recentEntry[V]).key)
}

// drop forgets the oldest ones as long as they are over.
func (r *recent[V]) drop(over func(V) bool) {
	for e := r.order.Back(); e != nil && over(e.Value.(*recentEntry[V]).value); e = r.order.Back() {
		r.forget(e.Value.(*recentEntry[V]).key)
	}
}

func (r *recent[V]) forget(key Attempt) {
	if element, found := r.entries[key]; found {
		r.order.Remove(element)
		delete(r.entries, key)
		if r.bySource[key.Source]--; r.bySource[key.Source] == 0 {
			delete(r.bySource, key.Source)
		}
	}
}
