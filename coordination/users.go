package coordination

import (
	"fmt"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// Accounts is the present users and signing keys.
func (m *Machine) Accounts() *accounts.Accounts { return m.accounts }

// AccessVersion changes whenever anybody's rights may have changed: with users and with permissions. It is
// this server's own and starts anew with it.
func (m *Machine) AccessVersion() uint64 { return m.accessVersion }

// ofAccounts is the position as the accounts name it.
func (p Position) ofAccounts() accounts.Position {
	return accounts.Position{Index: uint64(p.Index), Place: uint32(p.Place)}
}

func (m judge) by(c Caller) accounts.By {
	return accounts.By{Subject: c.Subject, Exempt: m.Subject(c).Exempt}
}

// accountsChange returns the change of the accounts by a command about users and keys. bounded reports that it must fit
// into the room of the state if it grows.
func (m judge) accountsChange(c Command) (change accounts.Change, bounded bool) {
	at := m.at().ofAccounts()
	switch c := c.(type) {
	case *AddUser:
		user := accounts.User{Name: c.Name, PasswordHash: c.PasswordHash, Administrator: c.Administrator}
		return m.accounts.Add(m.by(c.Caller), at, user, c.OnlyFirst), true
	case *SetPassword:
		return m.accounts.SetPassword(m.by(c.Caller), at, c.Name, c.PasswordHash), true
	case *RemoveUser:
		return m.accounts.Remove(m.by(c.Caller), c.Name), true
	case *RotateSigningKey:
		key := accounts.SigningKey{Secret: c.Secret, CreatedMillis: c.StampMillis}
		// Nobody can log in without keys, and there are accounts.MaxSigningKeys at most.
		return m.accounts.Rotate(m.by(c.Caller), at, key, c.After, c.DropBeforeMillis), false
	}
	panic(fmt.Sprintf("coordination: %T is not about accounts", c))
}

func (m judge) changeAccounts(c Command) (scheme.Step, outcome.Outcome) {
	change, bounded := m.accountsChange(c)
	if change.After == m.accounts {
		return nil, change.Outcome
	}
	bytes := accountsBytes(change.After)
	if grown := int64(bytes - m.accountBytes); grown > 0 && bounded && !m.fits(uint64(grown)) {
		return nil, because(StateFull)
	}
	return func() {
		m.accounts, m.accountBytes = change.After, bytes
		m.accessVersion++
		for _, id := range change.Users {
			m.accountRows.touch(accountKey(RowUser, id))
		}
		for _, id := range change.Keys {
			m.accountRows.touch(accountKey(RowSigningKey, id))
		}
	}, change.Outcome
}
