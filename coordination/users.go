package coordination

import (
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
)

// Accounts is the present users and signing keys.
func (m *Machine) Accounts() *accounts.Accounts { return m.accounts }

// AccessVersion changes whenever anybody's rights may have changed: with users and with permissions. It is
// this server's own and starts anew with it.
func (m *Machine) AccessVersion() uint64 { return m.accessVersion }

// Subject is a caller as the path tree wants to know it: administrators are exempt from access control.
func (m *Machine) Subject(c Caller) scheme.Subject {
	return scheme.Subject{Name: c.Subject, Exempt: !c.Enforced || m.accounts.IsAdministrator(c.Subject)}
}

// applyToAccounts executes a command about users and keys. It reports whether c is one.
func (m *Machine) applyToAccounts(c Command) bool {
	at := m.at().ofAccounts()
	switch c := c.(type) {
	case *AddUser:
		user := accounts.User{Name: c.Name, PasswordHash: c.PasswordHash, Administrator: c.Administrator}
		m.changeAccounts(c.CallID, m.accounts.Add(m.by(c.Caller), at, user, c.OnlyFirst), true)
	case *SetPassword:
		m.changeAccounts(c.CallID, m.accounts.SetPassword(m.by(c.Caller), at, c.Name, c.PasswordHash), true)
	case *RemoveUser:
		m.changeAccounts(c.CallID, m.accounts.Remove(m.by(c.Caller), c.Name), true)
	case *RotateSigningKey:
		key := accounts.SigningKey{Secret: c.Secret, CreatedMillis: c.StampMillis}
		// Nobody can log in without keys, and there are accounts.MaxSigningKeys at most.
		m.changeAccounts(c.CallID, m.accounts.Rotate(m.by(c.Caller), at, key, c.After, c.DropBeforeMillis),
			false)
	default:
		return false
	}
	return true
}

// ofAccounts is the position as the accounts name it.
func (p Position) ofAccounts() accounts.Position {
	return accounts.Position{Index: uint64(p.Index), Place: uint32(p.Place)}
}

func (m *Machine) by(c Caller) accounts.By {
	return accounts.By{Subject: c.Subject, Exempt: m.Subject(c).Exempt}
}

// changeAccounts takes over what a command did to the accounts, and answers it. bounded says that it must fit
// into the room of the state if it grows.
func (m *Machine) changeAccounts(call CallID, change accounts.Change, bounded bool) {
	if change.After != m.accounts {
		bytes := accountsBytes(change.After)
		if grown := int64(bytes - m.accountBytes); grown > 0 && bounded && !m.fits(uint64(grown)) {
			m.done(call, noRoom())
			return
		}
		m.accounts, m.accountBytes = change.After, bytes
		m.accessVersion++
	}
	for _, id := range change.Users {
		m.accountRows.touch(accountKey(RowUser, id))
	}
	for _, id := range change.Keys {
		m.accountRows.touch(accountKey(RowSigningKey, id))
	}
	m.done(call, change.Outcome)
}
