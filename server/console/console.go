package console

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/listen"
)

// Config is the part of a server that the console needs.
type Config struct {
	Bridge
	Auth     *auth.Authenticator
	Accounts func() *accounts.Accounts
	// SignIn returns a token for a user's name and password. Errors are gRPC's.
	SignIn func(ctx context.Context, user, password string) (token string, err error)
	Logger *slog.Logger
	// Hosts are the names of this server, see listen.HostKnown.
	Hosts []string
	// Loopback reports that nobody reaches the listener but by the loopback interface.
	Loopback bool
}

// Console answers the calls of the pages.
type Console struct {
	Config
	keys keys
	safe http.Handler // serves requests whose headers are as they have to be
}

var (
	errCredentials = status.Error(codes.InvalidArgument,
		`session: want {"key": "…"}, {"user": "…", "password": "…"} or {}`)
	errSignIn = status.Error(codes.Unauthenticated, "You are not signed in, or no longer")
	errKey    = status.Error(codes.Unauthenticated,
		"The key was used before, or is older than 5 minutes: make another with `coordd console`")
	errInClear = status.Error(codes.PermissionDenied,
		"What you sign in with would cross the network in clear. Start the server with --http-tls, or go by way of "+
			"this machine's loopback interface, such as ssh -L 8765:127.0.0.1:8765")
)

// New returns the console of a server.
func New(config Config) *Console {
	c, mux := &Console{Config: config}, http.NewServeMux()
	mux.HandleFunc("POST /api/session", c.signIn)
	mux.HandleFunc("DELETE /api/session", c.signOut)
	mux.HandleFunc("POST /api/live", c.live)
	mux.HandleFunc("POST /api/{service}/{method}", c.serveCall)
	c.safe = http.NewCrossOriginProtection().Handler(mux)
	return c
}

// ServeHTTP serves the paths below /api/, to pages that are this server's own.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !listen.HostKnown(r.Host, c.Hosts):
		http.Error(w, listen.WrongHost, http.StatusMisdirectedRequest)
	case r.Method == http.MethodPost && kind != "application/json":
		http.Error(w, "want application/json", http.StatusUnsupportedMediaType)
	default:
		c.safe.ServeHTTP(w, r)
	}
}

// serveCall answers POST /api/SERVICE/METHOD.
func (c *Console) serveCall(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/api")
	body, err := read(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	ctx, err := c.signedIn(r)
	if err != nil {
		refuse(w, err)
		return
	}
	answer, version, err := c.call(ctx, name, body)
	switch {
	case err != nil:
		refuse(w, err)
	case r.Header.Get(haveHeader) == version:
		w.WriteHeader(http.StatusNotModified)
	default:
		body, err := protojson.Marshal(answer)
		if err == nil && len(body) > maxAnswerBytes {
			err = errLarge
		}
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set(versionHeader, version)
		write(w, http.StatusOK, body)
	}
}

// live answers once a view of a page has changed, with which of them have, or after livePatience.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	body, err := read(w, r)
	var views []view
	if err == nil {
		views, err = parseViews(body)
	}
	// the listener's time for a request is shorter
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(livePatience + writePatience))
	for over := time.Now().Add(livePatience); err == nil; {
		var ctx context.Context
		if ctx, err = c.signedIn(r); err != nil { // it may end meanwhile
			break
		}
		changed, next := c.changed(ctx, views)
		if len(changed) > 0 || time.Now().After(over) {
			answer(w, http.StatusOK, map[string][]int{"changed": changed})
			return
		}
		select {
		case <-time.After(time.Until(next)):
		case <-r.Context().Done():
			return
		}
	}
	refuse(w, err)
}

// NewKey returns a key to sign in with as an administrator, once, and within keyLifetime.
func (c *Console) NewKey() string { return c.keys.newKey() }

// private reports whether the secrets of a request are safe from others on the network: the connection is encrypted,
// or the listener is on the loopback interface, or the browser has connected to its own machine, where a tunnel or the
// port of a container begins. This guards honest users; it lets nobody in.
func (c *Console) private(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	address, err := netip.ParseAddr(host)
	return r.TLS != nil || c.Loopback || host == "localhost" || err == nil && address.IsLoopback()
}

// credentials are the body of a sign-in.
type credentials struct {
	Key      string `json:"key"`
	User     string `json:"user"`
	Password string `json:"password"`
}

// session is the answer to a sign-in.
type session struct {
	Token  string    `json:"token,omitempty"`
	User   string    `json:"user"`
	Rights []string  `json:"rights"`
	Until  time.Time `json:"until"`
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	ctx := from(r)
	body, err := read(w, r)
	var with credentials
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err = decoder.Decode(&with); err != nil {
			err = errCredentials
		}
	}
	token := ""
	switch {
	case err != nil:
	case !c.private(r):
		err = errInClear
	case with.Key != "":
		if token = c.keys.exchange(with.Key, c.Auth.ConsoleLifetime()); token == "" {
			err = errKey
			c.Auth.TellRefusedToken(ctx, err, c.Logger)
		}
	case with.User != "":
		token, err = c.SignIn(ctx, with.User, with.Password)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	shown, err := c.shown(token, r)
	if err != nil {
		refuse(w, err)
		return
	}
	if shown.Token = token; token != "" {
		id, _ := c.resolve(token)
		c.Logger.Info("signed in to the console", "user", id.String(), "remote", r.RemoteAddr)
	}
	answer(w, http.StatusOK, shown)
}

// shown describes the session of a token, or of the one that a request has.
func (c *Console) shown(token string, r *http.Request) (session, error) {
	if token == "" {
		token = bearer(r)
	}
	id, until := c.resolve(token)
	if id == nil {
		return session{}, errSignIn
	}
	s := session{User: id.Name, Rights: []string{}, Until: until}
	if id.Owns() || c.Accounts().IsAdministrator(id.Name) {
		s.Rights = append(s.Rights, "administrator")
	}
	if c.Acts {
		s.Rights = append(s.Rights, "act")
	}
	return s, nil
}

// signOut ends a token on this server. Others of the cluster do not know of it.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if id, until := c.resolve(bearer(r)); id != nil {
		c.keys.end(bearer(r), until)
	}
	w.WriteHeader(http.StatusNoContent)
}

// signedIn returns the context of a request with its caller.
func (c *Console) signedIn(r *http.Request) (context.Context, error) {
	ctx := from(r)
	id, _ := c.resolve(bearer(r))
	if id == nil {
		if bearer(r) != "" {
			c.Auth.TellRefusedToken(ctx, errSignIn, c.Logger)
		}
		return nil, errSignIn
	}
	return auth.With(ctx, id), nil
}

// resolve returns the identity that a token stands for, and until when; nil if it is no token that is good now.
func (c *Console) resolve(token string) (*auth.Identity, time.Time) {
	until, administrator := c.keys.find(token)
	switch {
	case administrator:
		return auth.KeyHolder, until
	case !until.IsZero() || token == "": // signed out
		return nil, until
	}
	if id := c.Auth.ResolveConsole(token, c.Accounts()); id != nil {
		return id, id.Expires()
	}
	return nil, time.Time{}
}

func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}
