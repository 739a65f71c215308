package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/listen"
)

// connectionFlags say which server to manage, and who does it.
type connectionFlags struct {
	endpoint, database, caFile string
	dataDir                    string
	config                     string // the file that the server reads
	login, passwordFile        string
	password                   string // of login, once it is known
	// where nobody answers at the socket, another way to the server is as good
	onlyAsks bool
}

// locate finds the server to ask: the one that is named, or this machine's, by the administrator's socket or,
// where nobody answers at that, by the address that it would listen on.
func (f *connectionFlags) locate(ctx context.Context, env *cmdline.Env) (target, error) {
	if f.endpoint != "" && f.dataDir != "" {
		return target{}, exit.Usagef("flags --endpoint and --%s: give one of them", serve.DataDirName)
	}
	if at, err := f.named(env.Environ); at != nil || err != nil {
		if err != nil {
			return target{}, err
		}
		return *at, nil
	}
	switch path, err := f.socket(ctx, env); {
	case err != nil:
		return target{}, err
	case path != "" && f.caFile != "":
		return target{}, exit.Usagef("flag --ca-file: has no meaning for the socket %s; give --endpoint as well", path)
	case path != "":
		return target{socket: path}, nil
	}
	endpoint, err := localEndpoint(f.served(), env.Environ)
	if err != nil {
		return target{}, err
	}
	at, err := parseEndpoint(endpoint)
	if err != nil {
		return target{}, exit.Usagef("%s: %w", endpoint, err)
	}
	if f.database != "" {
		at.database = ""
	}
	return at, f.complete(&at, env.Environ)
}

// socket is the path of the administrator's socket of this machine's server, empty if there is none. For a
// directory that was named that is an error.
func (f *connectionFlags) socket(ctx context.Context, env *cmdline.Env) (string, error) {
	directory := f.dataDir
	if directory == "" {
		if directory = localDataDir(env, f.served()); directory == "" {
			return "", nil
		}
	}
	path := filepath.Join(directory, listen.SocketName)
	if f.dataDir == "" && unreachable(path) && !unreachable(serve.GroupSocket) {
		path = serve.GroupSocket
	}
	switch _, err := os.Lstat(path); {
	case err != nil && f.dataDir != "":
		return "", exit.With(exit.NotServing, fmt.Errorf("flag --%s: no server runs there: %w", serve.DataDirName,
			err))
	case err != nil:
		return "", nil
	case f.onlyAsks && f.dataDir == "":
		conn, err := listen.DialSocket(ctx, path)
		if err != nil { // left behind, or another user's
			return "", nil
		}
		_ = conn.Close()
	}
	return path, nil
}

// unreachable reports whether a socket does not exist, or not for this user.
func unreachable(path string) bool {
	_, err := os.Lstat(path)
	return err != nil
}

// localDataDir is the data directory that `coordd serve` would use with these flags and the same environment,
// empty if it would use none. What is wrong with them is told when the endpoint is looked for.
func localDataDir(env *cmdline.Env, served *pflag.FlagSet) string {
	s, _, err := serve.Resolve(serve.OptionsNamed(serve.DataDirName, serve.InMemoryName), served, env.Environ, env.UID)
	if err != nil {
		return ""
	}
	return string(s.DataDir)
}

// dial makes a connection to a server.
func (f *connectionFlags) dial(at target, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	if at.socket != "" {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithAuthority("localhost"),
			grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
				return listen.DialSocket(ctx, path)
			}))
		return grpc.NewClient("passthrough:///"+at.socket, options...)
	}
	security := insecure.NewCredentials()
	if at.encrypted {
		var err error
		if security, err = protocol.Trust(f.caFile); err != nil {
			return nil, fmt.Errorf("flag --ca-file: %w", err)
		}
	}
	return grpc.NewClient("passthrough:///"+at.address, append(options, grpc.WithTransportCredentials(security))...)
}

// login returns a token.
func (t target) login(ctx context.Context, conn *grpc.ClientConn, name, password string) (string, error) {
	token, err := protocol.Login(ctx, conn, t.database, name, password)
	var refused *protocol.Refused
	switch {
	case errors.As(err, &refused):
		return "", fmt.Errorf("log in as %s to the database %s: %w", name, t.database, err)
	case err != nil:
		return "", fmt.Errorf("log in as %s: %w", name, t.unreached(plain(err)))
	}
	return token, nil
}

// plain is a gRPC error without what only programmers want to know.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}

// localEndpoint is the connection string of the server that the environment and the config file describe.
func localEndpoint(served *pflag.FlagSet, env cmdline.Environment) (string, error) {
	s, _, err := serve.ResolveEach(serve.OptionsNamed(serve.ListenName, serve.DatabaseName), served, env)
	if err != nil {
		return "", err
	}
	if s.Listen == "" {
		return "", exit.Usagef("flag --endpoint: no value given, and the server listens with TLS only: give " +
			"grpcs://HOST:PORT")
	}
	host, port, err := net.SplitHostPort(string(s.Listen))
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", exit.Usagef(
			"flag --endpoint: no value given, and the server's port is not known before it has started")
	}
	if address, err := netip.ParseAddr(host); host == "" || err == nil && address.IsUnspecified() {
		host = "127.0.0.1"
		if address.Is6() {
			host = "::1"
		}
	}
	return "grpc://" + net.JoinHostPort(host, port) + string(s.Database), nil
}
