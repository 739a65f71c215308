package coordination

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/scheme"
)

// Limits of the users and keys; sizes are bytes, and inclusive. They are ours.
const (
	// MaxUsers bounds the user list.
	MaxUsers = 10_000
	// MaxUserNameBytes bounds a user's name.
	MaxUserNameBytes = 256
	// MaxPasswordHashBytes bounds what is stored for a password.
	MaxPasswordHashBytes = 1024
	// MaxSigningKeys bounds the keys that verify; a rotation beyond it is refused until the oldest may be dropped.
	MaxSigningKeys = 64
	// MaxSigningKeyBytes bounds the secret of a key.
	MaxSigningKeyBytes = 64
)

// Accounts is the users and the signing keys at one moment. It never changes: a command that changes something makes a
// new one, so other goroutines may keep and read it.
type Accounts struct {
	users []UserRow       // ascending names
	keys  []SigningKeyRow // ascending ids
}

// Users returns all users in ascending order of their names. The slice must not be changed.
func (a *Accounts) Users() []UserRow { return a.users }

// User returns the user with the given name.
func (a *Accounts) User(name string) (UserRow, bool) {
	at, found := a.search(name)
	if !found {
		return UserRow{}, false
	}
	return a.users[at], true
}

// IsAdministrator tells whether there is an administrator of that name.
func (a *Accounts) IsAdministrator(name string) bool {
	user, found := a.User(name)
	return found && user.Administrator
}

// SigningKeys returns the keys that login tokens may be signed with, the newest last. The slice must not be changed.
func (a *Accounts) SigningKeys() []SigningKeyRow { return a.keys }

func (a *Accounts) search(name string) (int, bool) {
	return slices.BinarySearchFunc(a.users, name, func(u UserRow, name string) int { return strings.Compare(u.Name, name) })
}

func (a *Accounts) clone() *Accounts {
	return &Accounts{users: slices.Clone(a.users), keys: slices.Clone(a.keys)}
}

// newestKey is the id of the newest signing key, 0 if there is none.
func (a *Accounts) newestKey() uint64 {
	if len(a.keys) == 0 {
		return 0
	}
	return a.keys[len(a.keys)-1].ID
}

// Accounts is the present users and signing keys.
func (m *Machine) Accounts() *Accounts { return m.accounts }

// AccessVersion changes whenever anybody's rights may have changed: with users and with permissions. It is this
// server's own and starts anew with it.
func (m *Machine) AccessVersion() uint64 { return m.accessVersion }

// Subject is a caller as the path tree wants to know it: administrators are exempt from access control.
func (m *Machine) Subject(c Caller) scheme.Subject {
	return scheme.Subject{Name: c.Subject, Exempt: !c.Enforced || m.accounts.IsAdministrator(c.Subject)}
}

// applyToAccounts executes a command about users and keys. It reports whether c is one.
func (m *Machine) applyToAccounts(c Command) bool {
	switch c := c.(type) {
	case *AddUser:
		m.done(c.Call, m.addUser(c))
	case *SetPassword:
		m.done(c.Call, m.setPassword(c))
	case *RemoveUser:
		m.done(c.Call, m.removeUser(c))
	case *RotateSigningKey:
		m.done(c.Call, m.rotateSigningKey(c))
	default:
		return false
	}
	return true
}

func refuseAccount(status scheme.Status, text string) scheme.Outcome {
	return scheme.Refuse(status, scheme.Issue{Severity: scheme.SeverityError, Message: text})
}

func notAdministrator() scheme.Outcome {
	return scheme.Refuse(scheme.Unauthorized, scheme.Issue{Code: scheme.CodeAccessDenied, Severity: scheme.SeverityError,
		Message: "Only administrators may manage users"})
}

func noSuchUser() scheme.Outcome {
	return refuseAccount(scheme.NotFound, "User does not exist")
}

func (m *Machine) addUser(c *AddUser) scheme.Outcome {
	first := len(m.accounts.users) == 0
	at, exists := m.accounts.search(c.Name)
	switch {
	case c.OnlyFirst && !first:
		return scheme.Done()
	case !first && !m.Subject(c.Caller).Exempt:
		return notAdministrator()
	case !validUserName(c.Name):
		return refuseAccount(scheme.BadRequest, "User name is empty, too long, or has characters other than printable ASCII")
	case !validPasswordHash(c.PasswordHash):
		return refuseAccount(scheme.BadRequest, "Password hash is empty or too long")
	case exists:
		return refuseAccount(scheme.AlreadyExists, "User already exists")
	case len(m.accounts.users) >= MaxUsers:
		return refuseAccount(scheme.PreconditionFailed, "Too many users already exist")
	}
	a := m.changeAccounts()
	a.users = slices.Insert(a.users, at, UserRow{ID: uint64(m.index), Name: c.Name, PasswordHash: c.PasswordHash,
		Administrator: first || c.Administrator, Version: m.index})
	m.accountRows.touch(RowKey{Kind: RowUser, ID: uint64(m.index)})
	return scheme.Done()
}

func (m *Machine) setPassword(c *SetPassword) scheme.Outcome {
	at, exists := m.accounts.search(c.Name)
	switch {
	case !m.Subject(c.Caller).Exempt && (c.Subject == "" || c.Subject != c.Name):
		return notAdministrator()
	case !exists:
		return noSuchUser()
	case !validPasswordHash(c.PasswordHash):
		return refuseAccount(scheme.BadRequest, "Password hash is empty or too long")
	}
	user := &m.changeAccounts().users[at]
	user.PasswordHash, user.Version = c.PasswordHash, m.index
	m.accountRows.touch(user.Key())
	return scheme.Done()
}

func (m *Machine) removeUser(c *RemoveUser) scheme.Outcome {
	at, exists := m.accounts.search(c.Name)
	switch {
	case !m.Subject(c.Caller).Exempt:
		return notAdministrator()
	case !exists:
		return noSuchUser()
	case m.isLastAdministrator(c.Name) && len(m.accounts.users) > 1:
		return refuseAccount(scheme.PreconditionFailed, "The last administrator can only be removed as the last user")
	}
	m.accountRows.touch(m.accounts.users[at].Key())
	a := m.changeAccounts()
	a.users = slices.Delete(a.users, at, at+1)
	return scheme.Done()
}

func (m *Machine) isLastAdministrator(name string) bool {
	return m.accounts.IsAdministrator(name) && !slices.ContainsFunc(m.accounts.users, func(u UserRow) bool {
		return u.Administrator && u.Name != name
	})
}

func (m *Machine) rotateSigningKey(c *RotateSigningKey) scheme.Outcome {
	kept := slices.DeleteFunc(slices.Clone(m.accounts.keys), func(k SigningKeyRow) bool {
		return k.CreatedMillis < c.DropBeforeMillis
	})
	switch {
	case !m.Subject(c.Caller).Exempt:
		return notAdministrator()
	case len(c.Secret) == 0 || len(c.Secret) > MaxSigningKeyBytes:
		return refuseAccount(scheme.BadRequest, "Signing key is empty or too long")
	case c.After != m.accounts.newestKey():
		return refuseAccount(scheme.PreconditionFailed, "Another signing key has been added meanwhile")
	case len(kept) >= MaxSigningKeys:
		return refuseAccount(scheme.PreconditionFailed, "Too many signing keys are still in use")
	}
	for _, k := range m.accounts.keys {
		m.accountRows.touch(k.Key())
	}
	a := m.changeAccounts()
	a.keys = append(kept, SigningKeyRow{ID: uint64(m.index), Secret: c.Secret, CreatedMillis: c.StampMillis})
	m.accountRows.touch(RowKey{Kind: RowSigningKey, ID: uint64(m.index)})
	return scheme.Done()
}

// changeAccounts makes a new version to change.
func (m *Machine) changeAccounts() *Accounts {
	m.accounts = m.accounts.clone()
	m.accessVersion++
	return m.accounts
}

// validUserName allows printable ASCII without spaces, so that names are safe in logs and on command lines.
func validUserName(name string) bool {
	return name != "" && len(name) <= MaxUserNameBytes &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

func validPasswordHash(hash string) bool { return hash != "" && len(hash) <= MaxPasswordHashBytes }

// check verifies the invariants of the users and keys.
func (a *Accounts) check(applied Index) error {
	var broken []error
	fail := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	administrators := 0
	for i, u := range a.users {
		if !validUserName(u.Name) || i > 0 && a.users[i-1].Name >= u.Name {
			fail("user %d %q has a bad name or is out of order", u.ID, u.Name)
		}
		if !validPasswordHash(u.PasswordHash) || u.ID == 0 || Index(u.ID) > u.Version || u.Version > applied {
			fail("user %d %q of version %d is not sound at index %d", u.ID, u.Name, u.Version, applied)
		}
		if u.Administrator {
			administrators++
		}
	}
	if len(a.users) > MaxUsers || len(a.users) > 0 && administrators == 0 {
		fail("%d users, %d of them administrators", len(a.users), administrators)
	}
	for i, k := range a.keys {
		if len(k.Secret) == 0 || k.ID == 0 || Index(k.ID) > applied || i > 0 && a.keys[i-1].ID >= k.ID {
			fail("signing key %d is empty or out of order", k.ID)
		}
	}
	return errors.Join(broken...)
}
