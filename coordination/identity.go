package coordination

import "github.com/coordd/coordd/coordination/accounts"

// IdentityKind says by what somebody has proved who he is. The numbers are part of the stored format.
type IdentityKind uint8

// The kinds of identities.
const (
	// IdentityNone is nobody in particular: an anonymous caller, or one who is not asked who he is.
	IdentityNone IdentityKind = iota
	// IdentityUser has logged in.
	IdentityUser
	// IdentityToken has shown a token of a file.
	IdentityToken
	// IdentityCertificate has shown a client certificate.
	IdentityCertificate
)

// Identity is who somebody is. Unlike Caller.Subject, which rights go by, it tells apart those of one name:
// one who shows a token from one who logs in, and a user from one who was removed before.
type Identity struct {
	Kind    IdentityKind
	User    accounts.Position // its id, with IdentityUser
	Subject string            // with the other kinds
}
