package auth

import (
	"context"
	"crypto/sha256"
	"net"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/internal/netguard"
)

// Identity is who a caller has proved to be, and by what. It does not change.
type Identity struct {
	// Name is empty for an anonymous caller.
	Name string

	source identitySource
	token  [sha256.Size]byte // of a token from the file
	login  loginProof        // of a login token
}

type identitySource uint8

const (
	fromNothing identitySource = iota
	fromTokenFile
	fromLogin
	fromCertificate
	fromSocket
	fromKey
)

// Anonymous is a caller who has proved nothing.
var Anonymous = &Identity{}

// LocalAdministrator is who has opened the administrator's socket and shows nothing else.
var LocalAdministrator = &Identity{source: fromSocket}

// KeyHolder is a person who has signed in to the console by a key of the administrator's socket.
var KeyHolder = &Identity{source: fromKey}

// Owns reports whether the caller may do everything without being a user.
func (i *Identity) Owns() bool { return i == LocalAdministrator || i == KeyHolder }

// ByLogin reports whether it was proved by a login token.
func (i *Identity) ByLogin() bool { return i.source == fromLogin }

// Expires returns the time at which the login token ends that proved it.
func (i *Identity) Expires() time.Time { return i.login.until }

// ByToken reports whether it was proved by a token of either kind.
func (i *Identity) ByToken() bool { return i.source == fromTokenFile || i.source == fromLogin }

// String is how logs call it.
func (i *Identity) String() string {
	switch {
	case i == LocalAdministrator:
		return "(administrator's socket)"
	case i == KeyHolder:
		return "(console key)"
	case i.Name == "":
		return "(nobody)"
	}
	return i.Name
}

type identityKey struct{}

// OfSession is the identity as sessions remember it: whoever logs in is known by the user's id, which no
// other user of the name ever has.
func (i *Identity) OfSession() coordination.Identity {
	switch i.source {
	case fromLogin:
		return coordination.Identity{Kind: coordination.IdentityUser, User: i.login.user}
	case fromTokenFile:
		return coordination.Identity{Kind: coordination.IdentityToken, Subject: i.Name}
	case fromCertificate:
		return coordination.Identity{Kind: coordination.IdentityCertificate, Subject: i.Name}
	}
	return coordination.Identity{}
}

// Of is the identity that With has put into a context, Anonymous without one.
func Of(ctx context.Context) *Identity {
	if id, ok := ctx.Value(identityKey{}).(*Identity); ok {
		return id
	}
	return Anonymous
}

// With is a context that knows who calls.
func With(ctx context.Context, id *Identity) context.Context {
	if id == Anonymous {
		return ctx
	}
	return context.WithValue(ctx, identityKey{}, id)
}

// FromSocket reports whether the caller has opened the administrator's socket.
func FromSocket(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	_, ok = p.Addr.(*net.UnixAddr)
	return ok
}

// FromLoopback reports whether the caller is on this machine, or comes by way of it.
func FromLoopback(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	address, ok := p.Addr.(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}

// LogFields say who calls, from where, and as part of what: the SDKs pass on the trace of the program that
// uses them.
func LogFields(ctx context.Context) []any {
	fields := []any{"user", lograte.Cut(Of(ctx).String())}
	if p, ok := peer.FromContext(ctx); ok {
		fields = append(fields, "remote", p.Addr.String())
	}
	for _, header := range []string{"traceparent", "x-ydb-trace-id"} {
		if values := metadata.ValueFromIncomingContext(ctx, header); len(values) > 0 && values[0] != "" {
			fields = append(fields, header, lograte.Cut(values[0]))
		}
	}
	return fields
}

// SourceOf names the address that a caller counts under, or "local" for the administrator's socket.
func SourceOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	tcp, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		return "local"
	}
	return netguard.Network(tcp)
}

// loginProof is what an identity keeps of its token.
type loginProof struct {
	user    accounts.Position // its id
	version accounts.Position
	key     accounts.Position
	until   time.Time // it expires
}
