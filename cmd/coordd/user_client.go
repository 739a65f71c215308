package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/cmd/coordd/client"
	"github.com/coordd/coordd/internal/exit"
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
	asClient                   bool   // the socket is not to be used
	// where nobody answers at the socket, another way to the server is as good
	onlyAsks bool
}

// declareConnection declares the flags of a command for administrators.
func (f *connectionFlags) declareConnection(flags *pflag.FlagSet) {
	f.declareDataDir(flags)
	f.declareEndpoint(flags, "the socket, or where there is none, the server that 'coordd serve' would start")
}

// declareEndpoint declares those of a command that does what clients do.
func (f *connectionFlags) declareEndpoint(flags *pflag.FlagSet, fallback string) {
	f.declareServer(flags, fallback)
	flags.StringVar(&f.login, "user", "", "name to log in with (default: none)")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of --user (default: stdin)")
}

// adminClient calls the services by which a server is managed.
type adminClient struct {
	conn  *grpc.ClientConn
	at    target
	token string // empty: anonymous
}

// connect opens a connection, and logs in if a name is given.
func (f *connectionFlags) connect(ctx context.Context, passwords *passwordReader) (*adminClient, error) {
	if f.login == "" && f.passwordFile != "" {
		return nil, exit.Usagef("flag --password-file: has no meaning without --user")
	}
	at, err := f.locate(ctx, passwords.program)
	if err != nil {
		return nil, err
	}
	c, err := f.dial(at)
	if err != nil {
		return nil, err
	}
	if f.login != "" {
		at.warnOfClearText(passwords.program)
		err := f.readPassword(passwords)
		if err == nil {
			c.token, err = c.login(ctx, f.login, f.password)
		}
		if err != nil {
			return nil, errors.Join(err, c.conn.Close())
		}
	}
	return c, nil
}

// locate finds the server to ask: the one that is named, or this machine's, by the administrator's socket or,
// where nobody answers at that, by the address that it would listen on.
func (f *connectionFlags) locate(ctx context.Context, p *program) (target, error) {
	if f.endpoint != "" && f.dataDir != "" {
		return target{}, exit.Usagef("flags --endpoint and --%s: give one of them", serve.DataDirName)
	}
	if at, err := f.named(p.environment); at != nil || err != nil {
		if err != nil {
			return target{}, err
		}
		return *at, nil
	}
	switch path, err := f.socket(ctx, p); {
	case err != nil:
		return target{}, err
	case path != "" && f.caFile != "":
		return target{}, exit.Usagef("flag --ca-file: has no meaning for the socket %s; give --endpoint as well", path)
	case path != "":
		return target{socket: path}, nil
	}
	endpoint, err := localEndpoint(f.served(), p.environment)
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
	return at, f.complete(&at, p.environment)
}

// socket is the path of the administrator's socket of this machine's server, empty if there is none. For a
// directory that was named that is an error.
func (f *connectionFlags) socket(ctx context.Context, p *program) (string, error) {
	directory := f.dataDir
	if directory == "" {
		if directory = p.localDataDir(f.served()); directory == "" || f.asClient {
			return "", nil
		}
	}
	path := filepath.Join(directory, listen.SocketName)
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

// localDataDir is the data directory that `coordd serve` would use with these flags and the same environment,
// empty if it would use none. What is wrong with them is told when the endpoint is looked for.
func (p *program) localDataDir(served *pflag.FlagSet) string {
	s, _, err := serve.Resolve(serve.OptionsNamed(serve.DataDirName, serve.InMemoryName), served, p.environment, p.uid)
	if err != nil {
		return ""
	}
	return s.DataDir
}

// dial makes a connection to a server.
func (f *connectionFlags) dial(at target, options ...grpc.DialOption) (*adminClient, error) {
	if at.socket != "" {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithAuthority("localhost"),
			grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
				return listen.DialSocket(ctx, path)
			}))
		conn, err := grpc.NewClient("passthrough:///"+at.socket, options...)
		return &adminClient{conn: conn, at: at}, err
	}
	security := insecure.NewCredentials()
	if at.encrypted {
		var err error
		if security, err = trust(f.caFile); err != nil {
			return nil, err
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+at.address,
		append(options, grpc.WithTransportCredentials(security))...)
	return &adminClient{conn: conn, at: at}, err
}

func trust(caFile string) (credentials.TransportCredentials, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("flag --ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("flag --ca-file: %s has no certificate in it", caFile)
		}
	}
	return credentials.NewTLS(config), nil
}

// readPassword finds the password of the user to log in as.
func (f *connectionFlags) readPassword(passwords *passwordReader) (err error) {
	if f.passwordFile != "" {
		f.password, err = serve.ReadPasswordFile(f.passwordFile)
	} else {
		f.password, err = passwords.read("password of " + f.login)
	}
	return err
}

// login returns a token.
func (c *adminClient) login(ctx context.Context, name, password string) (string, error) {
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(c.conn).Login(c.headers(ctx),
		&Ydb_Auth.LoginRequest{User: name, Password: password})
	if err != nil {
		return "", fmt.Errorf("log in as %s: %w", name, c.plain(err))
	}
	op := answer.GetOperation()
	var result Ydb_Auth.LoginResult
	if err := client.Answered(op.GetStatus(), op.GetIssues()); err != nil {
		return "", fmt.Errorf("log in as %s to the database %s: %w", name, c.at.database, err)
	}
	if err := op.GetResult().UnmarshalTo(&result); err != nil {
		return "", fmt.Errorf("log in as %s: %w", name, err)
	}
	return result.GetToken(), nil
}

func (c *adminClient) headers(ctx context.Context) context.Context {
	if c.at.database != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-database", c.at.database)
	}
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", c.token)
	}
	return ctx
}

func (c *adminClient) call(ctx context.Context, method string, request, response proto.Message) error {
	return c.plain(c.conn.Invoke(c.headers(ctx), method, request, response))
}

func (c *adminClient) close() { _ = c.conn.Close() }

// plain is an error of a call for a person: without gRPC's words, and with what may help if nobody was
// reached.
func (c *adminClient) plain(err error) error { return c.at.unreached(plain(err)) }

// plain is a gRPC error without what only programmers want to know.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}
