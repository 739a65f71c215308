package coordination

import "github.com/coordd/coordd/coordination/accounts"

// Caller says on whose behalf a command about the path tree or the users is made.
type Caller struct {
	// Subject is the name of who asks; empty for an anonymous caller.
	Subject string
	// Enforced reports that the subject's rights count. Otherwise everything is allowed.
	Enforced bool
}

func (c Caller) by() Caller { return c }

// AddUser adds a user with a password. The first user of an empty list is an administrator whatever the flag
// says, and may be added by anybody. With OnlyFirst nothing happens, and that is success, if there are users
// already.
type AddUser struct {
	CallID
	Caller
	Name          string
	PasswordHash  string // the machine never sees a password
	Administrator bool
	OnlyFirst     bool
}

// SetPassword replaces a user's password. Users may replace their own.
type SetPassword struct {
	CallID
	Caller
	Name         string
	PasswordHash string
}

// RemoveUser removes a user. The last administrator cannot be removed before all others.
type RemoveUser struct {
	CallID
	Caller
	Name string
}

// RotateSigningKey adds a key that login tokens are signed with, and forgets the keys that are older than
// DropBeforeMillis: nothing that they signed is valid any more. Servers make it by themselves, or an
// administrator does.
type RotateSigningKey struct {
	CallID
	Caller
	Secret           []byte
	StampMillis      uint64 // the wall clock of the server that made it
	DropBeforeMillis uint64
	// After is the id of the newest key that the proposer knew, the zero one for none: of two rotations at
	// once the second is void.
	After accounts.Position
}
