package coordination

import "github.com/coordd/coordd/coordination/accounts"

// IdentityKind is the kind of proof of an identity. The numbers are part of the stored format.
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

// Identity identifies a caller. Unlike Caller.Subject, which rights go by, it distinguishes those of one name: the
// bearer of a token from a user that logs in, and a user from one that was removed before.
type Identity struct {
	Kind    IdentityKind
	User    accounts.Position // its id, with IdentityUser
	Subject string            // with the other kinds
}
