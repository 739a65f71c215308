package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// connectionFlags name the server and the user.
type connectionFlags struct{ endpoint, caFile, user, passwordFile, tokenFile string }

const (
	endpointVariable = cmdline.VariablePrefix + "ENDPOINT"
	defaultEndpoint  = "grpc://localhost:2136/local"
)

func (f *connectionFlags) declare(flags *pflag.FlagSet) {
	flags.StringVarP(&f.endpoint, "endpoint", "e", "",
		"the server, grpc://HOST:PORT/DATABASE or grpcs:// (default: "+endpointVariable+", or "+defaultEndpoint+")")
	flags.StringVar(&f.caFile, "ca-file", "",
		"PEM file of the authorities to trust for grpcs:// (default: the system's)")
	flags.StringVar(&f.user, "user", "", "name to log in with (default: none)")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of --user")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with an access token, instead of --user")
}

// config returns the server that the flags name, logged in where one of them asks for it.
func (f *connectionFlags) config(ctx context.Context, env *cmdline.Env) (config conformance.EndpointConfig, err error) {
	switch {
	case f.user != "" && f.tokenFile != "":
		return config, exit.Usagef("flags --user and --token-file: give one of them")
	case (f.user == "") != (f.passwordFile == ""):
		return config, exit.Usagef("flags --user and --password-file: give both or none")
	}
	endpoint := cmp.Or(f.endpoint, env.Environ.Value(endpointVariable), defaultEndpoint)
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "grpc" && u.Scheme != "grpcs" || u.Hostname() == "" || u.Port() == "" ||
		u.User != nil {
		return config, exit.Usagef(
			"flag --endpoint: value %q is not allowed: want grpc://HOST:PORT/DATABASE or grpcs://HOST:PORT/DATABASE",
			endpoint)
	}
	config.Address, config.Database = u.Host, path.Clean("/"+cmp.Or(u.Query().Get("database"), u.Path, "local"))
	config.Security = insecure.NewCredentials()
	if u.Scheme == "grpcs" {
		if config.Security, err = protocol.Trust(f.caFile); err != nil {
			return config, exit.With(exit.Config, fmt.Errorf("flag --ca-file: %w", err))
		}
	}
	switch {
	case f.tokenFile != "":
		config.Token, err = readLine("token-file", f.tokenFile)
	case f.user != "":
		config.Token, err = f.login(ctx, &config)
	}
	return config, err
}

// login exchanges the password for a token.
func (f *connectionFlags) login(ctx context.Context, at *conformance.EndpointConfig) (string, error) {
	password, err := readLine("password-file", f.passwordFile)
	if err != nil {
		return "", err
	}
	conn, err := grpc.NewClient(at.Address, grpc.WithTransportCredentials(at.Security))
	if err != nil {
		return "", err
	}
	token, err := protocol.Login(ctx, conn, at.Database, f.user, password)
	if err != nil {
		err = fmt.Errorf("log in as %s: %w", f.user, unreached(at.Address, err))
	}
	return token, errors.Join(err, conn.Close())
}

// readLine returns the only line of a file that a flag names.
func readLine(flag, name string) (string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return "", exit.With(exit.Config, fmt.Errorf("flag --%s: %w", flag, err))
	}
	return strings.TrimSpace(string(content)), nil
}

// unreached marks the error of a server that cannot be reached.
func unreached(address string, err error) error {
	if status.Code(err) != codes.Unavailable {
		return err
	}
	return exit.With(exit.NotServing, fmt.Errorf("no server at %s: %w", address, err))
}
