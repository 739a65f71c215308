package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
)

// callerText is part of the help of all commands that do what clients do.
const callerText = `A PATH that does not begin with a slash is one below the database. Without --endpoint the
server is the one whose data directory is on this machine, or the one that 'coordd serve'
would start; COORDD_ENDPOINT names another.`

// callerFlags are the flags of commands that do what clients do.
type callerFlags struct {
	connectionFlags
	tokenFile string
	keepStdin bool // it is another program's: no password is read from it
}

// declareCaller declares the flags of a command for which any way to the server will do, and completes its arguments.
func (f *callerFlags) declareCaller(env *cmdline.Env, command *cobra.Command) {
	f.onlyAsks = true
	flags := command.Flags()
	f.declareDataDir(flags)
	f.declareServer(flags, "the socket, or where there is none, the server that 'coordd serve' would start")
	flags.StringVar(&f.login, "user", "", "name to log in with (default: none)")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of --user (default: stdin)")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with an access token, instead of --user")
	completeArguments(env, command, f)
}

// caller is the client of a command.
type caller struct {
	*protocol.Client
	flags    *callerFlags
	config   protocol.Config
	at       target
	database string // below which paths are
	outage
}

// outage makes a command that goes on survive the server that it asks.
type outage struct {
	failed error // of the last call to the inspection service
	found  bool  // it was answered before
	lasts  bool
}

// open makes a client of the server that the flags name. Nobody is called yet.
func (f *callerFlags) open(ctx context.Context, env *cmdline.Env) (*caller, error) {
	switch {
	case f.login == "" && f.passwordFile != "":
		return nil, exit.Usagef("flag --password-file: the password of a caller without --user")
	case f.login != "" && f.tokenFile != "":
		return nil, exit.Usagef("flags --user and --token-file: give one of them")
	case f.login != "" && f.passwordFile == "" && f.keepStdin:
		return nil, exit.Usagef("flag --user: give --password-file as well; stdin is the command's")
	}
	at, err := f.locate(ctx, env)
	if err != nil {
		return nil, err
	}
	c := &caller{flags: f, at: at, database: at.database}
	if c.database == "" {
		s, _, err := serve.ResolveEach(serve.OptionsNamed(serve.DatabaseName),
			pflag.NewFlagSet("", pflag.ContinueOnError),
			env.Environ)
		if err != nil {
			return nil, err
		}
		c.database = string(s.Database)
	}
	config := protocol.Config{Address: at.address, Database: at.database, Discover: at.socket == "",
		Encrypted: at.encrypted, Name: "coordd/" + cmdline.Version,
		Dial: func(address string) (*grpc.ClientConn, error) {
			to := at
			if at.socket == "" {
				to.address = address
			}
			return f.dial(to, protocol.Reconnecting)
		}}
	if config.Login, err = f.credentials(env, at); err != nil {
		return nil, err
	}
	c.config, c.Client = config, protocol.New(config)
	return c, nil
}

// credentials returns what gets a token from a server, nil for an anonymous caller. A password is asked for
// once.
func (f *callerFlags) credentials(env *cmdline.Env,
	at target) (func(context.Context, *grpc.ClientConn) (string, error), error) {
	if f.tokenFile != "" {
		// anew each time: it may have been replaced
		return func(context.Context, *grpc.ClientConn) (string, error) {
			content, err := os.ReadFile(f.tokenFile)
			if err != nil {
				return "", exit.With(exit.Config, fmt.Errorf("flag --token-file: %w", err))
			}
			return strings.TrimSpace(string(content)), nil
		}, nil
	}
	if f.login == "" {
		return nil, nil
	}
	at.warnOfClearText(env)
	var err error
	if f.password, err = readPassword(env, f.passwordFile, "password of "+f.login); err != nil {
		return nil, err
	}
	return func(ctx context.Context, conn *grpc.ClientConn) (string, error) {
		return at.login(ctx, conn, f.login, f.password)
	}, nil
}

// path is an argument as an absolute path.
func (c *caller) path(argument string) string {
	if strings.HasPrefix(argument, "/") {
		return argument
	}
	return strings.TrimSuffix(c.database+"/"+argument, "/")
}

// errNeedsOurs is the end of commands that use a service of coordd's own, where there is none.
var errNeedsOurs = exit.With(exit.NeedsOurs,
	errors.New("this needs a coordd server, and the one asked has no such service: it is another one, or an older one"))

// plain is an error of a call for a person.
func (c *caller) plain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return c.at.unreachedInTime()
	case status.Code(err) == codes.Unimplemented:
		return errNeedsOurs
	case exit.Of(err) != exit.Failure:
		return err
	}
	return c.at.unreached(plain(err))
}

// unreachedInTime is for a server that may be there.
func (t target) unreachedInTime() error {
	at := t.address
	if t.socket != "" {
		at = "the socket " + t.socket
	}
	return exit.With(exit.NotServing, fmt.Errorf("no answer from %s in time", at))
}
