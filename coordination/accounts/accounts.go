// Package accounts is the users who can log in and the keys that login tokens are signed with, and the rules
// by which commands change them. It is part of the replicated machine, and pure: the same commands make the
// same accounts on every server.
package accounts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/scheme/outcome"
)

// Limits of the users and keys; sizes are bytes, and inclusive. They are ours.
const (
	// MaxUsers bounds the user list.
	MaxUsers = 10_000
	// MaxUserNameBytes bounds a user's name.
	MaxUserNameBytes = 256
	// MaxPasswordHashBytes bounds what is stored for a password.
	MaxPasswordHashBytes = 1024
	// MaxSigningKeys bounds the keys that verify; a rotation beyond it is refused until the oldest may be
	// dropped.
	MaxSigningKeys = 64
	// MaxSigningKeyBytes bounds the secret of a key.
	MaxSigningKeyBytes = 64
)

// Position is where in the log a command is: the index of its entry, and its place among the entry's
// commands.
type Position struct {
	Index uint64
	Place uint32
}

// Compare orders positions by age.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Index, other.Index), cmp.Compare(p.Place, other.Place))
}

// String is the index, and behind a point the place unless it is 0. It is part of login tokens.
func (p Position) String() string {
	if p.Place == 0 {
		return strconv.FormatUint(p.Index, 10)
	}
	return fmt.Sprintf("%d.%d", p.Index, p.Place)
}

// User is a user who can log in.
type User struct {
	// ID is the position of the command that added the user, and so never another user's.
	ID            Position
	Name          string
	PasswordHash  string
	Administrator bool
	// Version is the position of the command that last set the password. Login tokens carry it.
	Version Position
}

// SigningKey is a key that login tokens are signed with. The newest one signs, all of them verify.
type SigningKey struct {
	ID            Position // of the command that added it
	Secret        []byte
	CreatedMillis uint64
}

// Accounts is the users and the signing keys at one moment. It never changes: a command that changes
// something makes a new one, so other goroutines may keep and read it.
type Accounts struct {
	users []User       // ascending names
	names []named      // of the users, ascending ids
	keys  []SigningKey // ascending ids
}

type named struct {
	id   Position
	name string
}

func (n named) compare(id Position) int { return n.id.Compare(id) }

// NameOf returns the name of the user with an id, empty if the user is unknown.
func (a *Accounts) NameOf(id Position) string {
	at, found := slices.BinarySearchFunc(a.names, id, named.compare)
	if !found {
		return ""
	}
	return a.names[at].name
}

// Users returns all users in ascending order of their names. The slice must not be changed.
func (a *Accounts) Users() []User { return a.users }

// User returns the user with the given name.
func (a *Accounts) User(name string) (User, bool) {
	at, found := a.search(name)
	if !found {
		return User{}, false
	}
	return a.users[at], true
}

// IsAdministrator reports whether there is an administrator of that name.
func (a *Accounts) IsAdministrator(name string) bool {
	user, found := a.User(name)
	return found && user.Administrator
}

// SigningKeys returns the keys that login tokens may be signed with, the newest last. The slice must not be
// changed.
func (a *Accounts) SigningKeys() []SigningKey { return a.keys }

func (a *Accounts) search(name string) (int, bool) {
	return slices.BinarySearchFunc(a.users, name,
		func(u User, name string) int { return strings.Compare(u.Name, name) })
}

func (a *Accounts) clone() *Accounts {
	return &Accounts{users: slices.Clone(a.users), names: slices.Clone(a.names), keys: slices.Clone(a.keys)}
}

// newestKey is the id of the newest signing key, or the zero one.
func (a *Accounts) newestKey() Position {
	if len(a.keys) == 0 {
		return Position{}
	}
	return a.keys[len(a.keys)-1].ID
}

func notAdministrator() outcome.Outcome {
	return outcome.Denied("Only administrators may manage users")
}

func noSuchUser() outcome.Outcome {
	return outcome.Because(outcome.NotFound, "User does not exist")
}

// By says on whose behalf the accounts are to be changed.
type By struct {
	Subject string // name; empty for an anonymous caller
	Exempt  bool   // everything is allowed: an administrator, or rights do not count
}

// Change is the effect of a command on the accounts. The zero Change changes nothing and has no outcome.
type Change struct {
	// After is the accounts as they are then; those before it if Outcome is a refusal.
	After *Accounts
	// Users and Keys are the ids of those that were added, changed or removed.
	Users, Keys []Position
	Outcome     outcome.Outcome
}

func (a *Accounts) refused(why outcome.Outcome) Change { return Change{After: a, Outcome: why} }

// Add adds a user by the command at a position. The first user of an empty list is an administrator whatever
// the flag says, and may be added by anybody. With onlyFirst nothing happens, and that is success, if there
// are users already.
func (a *Accounts) Add(by By, at Position, u User, onlyFirst bool) Change {
	first := len(a.users) == 0
	slot, exists := a.search(u.Name)
	switch {
	case onlyFirst && !first:
		return a.refused(outcome.Done())
	case !first && !by.Exempt:
		return a.refused(notAdministrator())
	case !validUserName(u.Name):
		return a.refused(outcome.Because(outcome.BadRequest,
			"User name is empty, too long, or has characters other than printable ASCII"))
	case !validPasswordHash(u.PasswordHash):
		return a.refused(outcome.Because(outcome.BadRequest, "Password hash is empty or too long"))
	case exists:
		return a.refused(outcome.Because(outcome.AlreadyExists, "User already exists"))
	case len(a.users) >= MaxUsers:
		return a.refused(outcome.Because(outcome.PreconditionFailed, "Too many users already exist"))
	}
	u.ID, u.Version, u.Administrator = at, at, first || u.Administrator
	after := a.clone()
	after.users = slices.Insert(after.users, slot, u)
	after.names = append(after.names, named{u.ID, u.Name}) // the newest
	return Change{After: after, Users: []Position{u.ID}, Outcome: outcome.Done()}
}

// SetPassword replaces a user's password by the command at a position. Users may replace their own.
func (a *Accounts) SetPassword(by By, at Position, name, passwordHash string) Change {
	slot, exists := a.search(name)
	switch {
	case !by.Exempt && (by.Subject == "" || by.Subject != name):
		return a.refused(notAdministrator())
	case !exists:
		return a.refused(noSuchUser())
	case !validPasswordHash(passwordHash):
		return a.refused(outcome.Because(outcome.BadRequest, "Password hash is empty or too long"))
	}
	after := a.clone()
	user := &after.users[slot]
	user.PasswordHash, user.Version = passwordHash, at
	return Change{After: after, Users: []Position{user.ID}, Outcome: outcome.Done()}
}

// Remove removes a user. The last administrator cannot be removed before all others.
func (a *Accounts) Remove(by By, name string) Change {
	slot, exists := a.search(name)
	switch {
	case !by.Exempt:
		return a.refused(notAdministrator())
	case !exists:
		return a.refused(noSuchUser())
	case a.isLastAdministrator(name) && len(a.users) > 1:
		return a.refused(outcome.Because(outcome.PreconditionFailed,
			"The last administrator can only be removed as the last user"))
	}
	after := a.clone()
	after.users = slices.Delete(after.users, slot, slot+1)
	id := a.users[slot].ID
	after.names = slices.DeleteFunc(after.names, func(n named) bool { return n.id == id })
	return Change{After: after, Users: []Position{id}, Outcome: outcome.Done()}
}

func (a *Accounts) isLastAdministrator(name string) bool {
	return a.IsAdministrator(name) && !slices.ContainsFunc(a.users, func(u User) bool {
		return u.Administrator && u.Name != name
	})
}

// Rotate adds a key by the command at a position, and forgets those that were made before dropBeforeMillis.
// newest is the id of the newest key that the proposer knew, or the zero one: of two rotations at once the second is
// void.
func (a *Accounts) Rotate(by By, at Position, k SigningKey, newest Position, dropBeforeMillis uint64) Change {
	kept := slices.DeleteFunc(slices.Clone(a.keys),
		func(k SigningKey) bool { return k.CreatedMillis < dropBeforeMillis })
	switch {
	case !by.Exempt:
		return a.refused(notAdministrator())
	case len(k.Secret) == 0 || len(k.Secret) > MaxSigningKeyBytes:
		return a.refused(outcome.Because(outcome.BadRequest, "Signing key is empty or too long"))
	case newest != a.newestKey():
		return a.refused(outcome.Because(outcome.PreconditionFailed,
			"Another signing key has been added meanwhile"))
	case len(kept) >= MaxSigningKeys:
		return a.refused(outcome.Because(outcome.PreconditionFailed,
			"Too many signing keys are still in use"))
	}
	k.ID = at
	after := a.clone()
	after.keys = append(kept, k)
	change := Change{After: after, Keys: []Position{k.ID}, Outcome: outcome.Done()}
	for _, old := range a.keys {
		change.Keys = append(change.Keys, old.ID)
	}
	return change
}

// Restored is the accounts that a checkpoint holds. The keys must be in ascending order of ids.
func Restored(users []User, keys []SigningKey) *Accounts {
	a := &Accounts{users: users, keys: keys}
	for _, u := range users {
		a.names = append(a.names, named{u.ID, u.Name})
	}
	slices.SortFunc(a.names, func(n, o named) int { return n.compare(o.id) })
	slices.SortFunc(users, func(u, v User) int { return cmp.Compare(u.Name, v.Name) })
	return a
}

// validUserName allows printable ASCII without spaces, so that names are safe in logs and on command lines.
func validUserName(name string) bool {
	return name != "" && len(name) <= MaxUserNameBytes &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

func validPasswordHash(hash string) bool { return hash != "" && len(hash) <= MaxPasswordHashBytes }

// Check verifies the invariants of the users and keys when the command at a position is the last that was
// applied.
func (a *Accounts) Check(applied Position) error {
	var broken []error
	fail := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	if len(a.names) != len(a.users) {
		fail("%d users, %d of them by their ids", len(a.users), len(a.names))
	}
	administrators := 0
	for i, u := range a.users {
		if a.NameOf(u.ID) != u.Name {
			fail("user %s %q is named %q by the id", u.ID, u.Name, a.NameOf(u.ID))
		}
		if !validUserName(u.Name) || i > 0 && a.users[i-1].Name >= u.Name {
			fail("user %s %q has a bad name or is out of order", u.ID, u.Name)
		}
		if !validPasswordHash(u.PasswordHash) || u.ID.Index == 0 || u.ID.Compare(u.Version) > 0 ||
			u.Version.Compare(applied) > 0 {
			fail("user %s %q of version %s is not sound at %s", u.ID, u.Name, u.Version, applied)
		}
		if u.Administrator {
			administrators++
		}
	}
	if len(a.users) > MaxUsers || len(a.users) > 0 && administrators == 0 {
		fail("%d users, %d of them administrators", len(a.users), administrators)
	}
	for i, k := range a.keys {
		if len(k.Secret) == 0 || k.ID.Index == 0 || k.ID.Compare(applied) > 0 || i > 0 &&
			a.keys[i-1].ID.Compare(k.ID) >= 0 {
			fail("signing key %s is empty or out of order", k.ID)
		}
	}
	return errors.Join(broken...)
}
