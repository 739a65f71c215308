package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
)

// endpointVariable names the server that commands ask which were given none.
const endpointVariable = cmdline.VariablePrefix + "ENDPOINT"

// target is the server that a command asks.
type target struct {
	address   string // HOST:PORT
	database  string // empty for the administrator's socket: the server has only one
	encrypted bool
	socket    string // path, in the place of an address
	from      string // what named it, for messages; empty: nothing
}

// parseEndpoint parses the address of a server that a flag or a variable gives.
func parseEndpoint(endpoint string) (target, error) {
	at, err := protocol.ParseEndpoint(endpoint)
	return target{address: at.Address, database: at.Database, encrypted: at.Encrypted}, err
}

// declareServer declares the flags of a command that asks a server as a client.
func (f *connectionFlags) declareServer(flags *pflag.FlagSet, fallback string) {
	flags.SortFlags = false
	flags.StringVarP(&f.endpoint, "endpoint", "e", "",
		"the server: HOST:PORT, or a connection string with grpc:// or grpcs:// (default: "+endpointVariable+
			", or "+fallback+")")
	flags.StringVarP(&f.database, serve.DatabaseName, "d", "",
		"its database, where --endpoint does not name it (default: as for 'coordd serve', /local)")
	flags.StringVar(&f.config, serve.ConfigName, "",
		"config file of this machine's server, from which the rest is taken as 'coordd serve' does (default: "+
			cmdline.Variable(serve.ConfigName)+")")
	flags.StringVar(&f.caFile, "ca-file", "",
		"PEM file of the authorities to trust for grpcs:// (default: the system's)")
}

// declareDataDir declares the flag of a command that may use the administrator's socket.
func (f *connectionFlags) declareDataDir(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.dataDir, serve.DataDirName, "",
		"data directory of the server on this machine whose socket to use (default: as for 'coordd serve')")
}

// served is the flags with which `coordd serve` would start the server that this command looks for.
func (f *connectionFlags) served() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	serve.AddFlags(flags, nil)
	if f.config != "" {
		_ = flags.Set(serve.ConfigName, f.config) // every text will do until it is used
	}
	return flags
}

// named is the server that a flag or the variable names, nil if neither does.
func (f *connectionFlags) named(env cmdline.Environment) (*target, error) {
	endpoint, from := f.endpoint, "flag --endpoint"
	if endpoint == "" {
		endpoint, from = env.Value(endpointVariable), "variable "+endpointVariable
	}
	if endpoint == "" || f.endpoint == "" && f.dataDir != "" {
		return nil, nil
	}
	code := exit.Usage
	if f.endpoint == "" {
		code = exit.Config
	}
	t, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, exit.With(code, fmt.Errorf("%s: %w", from, err))
	}
	t.from = from
	if f.caFile != "" && !strings.Contains(endpoint, "://") {
		t.encrypted = true
	}
	return &t, f.complete(&t, env)
}

// complete adds the database to a target, and sees whether the flags go together with it.
func (f *connectionFlags) complete(t *target, env cmdline.Environment) error {
	asked := f.database
	if asked != "" {
		asked = path.Clean("/" + asked)
	}
	switch {
	case asked != "" && t.database != "" && path.Clean(t.database) != asked:
		return exit.Usagef("flag --%s: value %q is not allowed: %s names %s", serve.DatabaseName, f.database, t.from,
			t.database)
	case !t.encrypted && f.caFile != "":
		return exit.Usagef("flag --ca-file: has no meaning for %s, which is not grpcs://", t.address)
	case t.database != "":
		return nil
	case asked != "":
		t.database = asked
		return nil
	}
	s, _, err := serve.ResolveEach(serve.OptionsNamed(serve.DatabaseName), f.served(), env)
	t.database = string(s.Database)
	return err
}

// warnOfClearText warns of a password that others may read on its way.
func (t target) warnOfClearText(env *cmdline.Env) {
	if t.socket == "" && !t.encrypted && serve.Reachable(t.address) {
		fmt.Fprintf(env.Stderr,
			"coordd: the password goes to %s in clear text; use grpcs:// where the server has TLS\n", t.address)
	}
}

// unreached says in few words why nobody was asked, and what may help. Other errors stay as they are.
func (t target) unreached(err error) error {
	if err == nil {
		return nil
	}
	at, other := t.address, "; --endpoint names another"
	if t.from != "" {
		other = ""
	}
	if t.socket != "" {
		at, other = "the socket "+t.socket, ""
	}
	text := err.Error()
	_, cause, _ := strings.Cut(text, "while dialing: ")
	cause = strings.Trim(cause, `"`)
	tls := func(advice string) error {
		_, why, found := strings.Cut(text, "handshake failed: ")
		if !found {
			why = text
		}
		return fmt.Errorf("the certificate of %s is not trusted: %s%s", at, strings.Trim(why, `"`), advice)
	}
	switch {
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		err = fmt.Errorf("%s speaks plain text: use grpc://, not grpcs://", at)
	case strings.Contains(text, "signed by unknown authority"):
		err = tls("; give --ca-file (`coordd cert` wrote it as ca.pem)")
	case strings.Contains(text, "x509: certificate is "), strings.Contains(text, "x509: cannot validate"):
		err = tls("; connect to a name that is in it, or make one with `coordd cert --host`")
	case strings.Contains(text, "x509: "):
		err = tls("")
	case strings.Contains(text, "error reading server preface") && !t.encrypted && t.socket == "":
		err = fmt.Errorf("%s does not answer in plain text; if it speaks TLS, use grpcs://, not grpc://", at)
	case cause != "":
		err = fmt.Errorf("no server at %s (%s)%s", at, shortly(cause), other)
	default:
		return err
	}
	return exit.With(exit.NotServing, err)
}

// shortly leaves out of a system's error what was said before: dial tcp 127.0.0.1:2136: connect: connection
// refused.
func shortly(cause string) string {
	words := strings.Split(cause, ": ")
	return words[len(words)-1]
}
