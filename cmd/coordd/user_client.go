package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"

	"github.com/coordd/coordd/server/listen"
)

// connectionFlags say which server to manage, and who does it.
type connectionFlags struct {
	endpoint, caFile    string
	dataDir             string
	login, passwordFile string
	password            string // of login, once it is known
}

// declareConnection declares the flags of a command for administrators.
func (f *connectionFlags) declareConnection(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.dataDir, dataDirName, "", "data directory of the server on this machine whose socket to use (default: as for 'coordd serve')")
	f.declareEndpoint(flags, "the socket, or where there is none, what 'coordd health' asks")
}

// declareEndpoint declares those of a command that does what clients do.
func (f *connectionFlags) declareEndpoint(flags *pflag.FlagSet, fallback string) {
	flags.SortFlags = false
	flags.StringVar(&f.endpoint, "endpoint", "", "connection string of a server, grpc:// or grpcs:// (default: "+fallback+")")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM file of the authorities to trust for grpcs:// (default: the system's)")
	flags.StringVar(&f.login, "user", "", "name to log in with (default: none)")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of --user (default: stdin)")
}

// adminClient calls the services by which a server is managed.
type adminClient struct {
	conn     *grpc.ClientConn
	database string // empty for the administrator's socket: the server has only one
	token    string // empty: anonymous
}

// connect opens a connection, and logs in if a name is given.
func (f *connectionFlags) connect(ctx context.Context, passwords *passwordReader) (*adminClient, error) {
	if f.login == "" && f.passwordFile != "" {
		return nil, usageError("flag --password-file: has no meaning without --user")
	}
	var socket string
	switch {
	case f.endpoint != "" && f.dataDir != "":
		return nil, usageError("flags --endpoint and --%s: give one of them", dataDirName)
	case f.endpoint == "":
		var err error
		if socket, err = f.socket(passwords.program); err != nil {
			return nil, err
		}
	}
	c, err := f.dial(socket)
	if err != nil {
		return nil, err
	}
	if f.login != "" {
		if err := c.login(ctx, f, passwords); err != nil {
			return nil, errors.Join(err, c.conn.Close())
		}
	}
	return c, nil
}

// socket is the path of the administrator's socket of this machine's server. Where there is none it is empty, and the
// endpoint is found.
func (f *connectionFlags) socket(p *program) (string, error) {
	directory := f.dataDir
	if directory == "" {
		directory = p.localDataDir()
	}
	path := filepath.Join(directory, listen.SocketName)
	_, err := os.Lstat(path)
	switch {
	case err == nil && directory != "":
		if f.caFile != "" {
			return "", usageError("flag --ca-file: has no meaning for the socket %s; give --endpoint as well", path)
		}
		return path, nil
	case f.dataDir != "":
		return "", fmt.Errorf("flag --%s: no server runs there: %w", dataDirName, err)
	}
	f.endpoint, err = localEndpoint(p.environment)
	return "", err
}

// localDataDir is the data directory that `coordd serve` would use with the same environment, empty if it would use none.
// What is wrong with the environment is told when the endpoint is looked for.
func (p *program) localDataDir() string {
	s, _, err := resolve(optionsNamed(dataDirName, inMemoryName), pflag.NewFlagSet("", pflag.ContinueOnError), p.environment, p.uid)
	if err != nil {
		return ""
	}
	return s.dataDir
}

// dial makes a connection to the socket, if there is one, or to the endpoint.
func (f *connectionFlags) dial(socket string) (*adminClient, error) {
	if socket != "" {
		conn, err := grpc.NewClient("passthrough:///"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
			grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) { return listen.DialSocket(ctx, path) }))
		return &adminClient{conn: conn}, err
	}
	address, database, encrypted, err := parseEndpoint(f.endpoint)
	if err != nil {
		return nil, err
	}
	if !encrypted && f.caFile != "" {
		return nil, usageError("flag --ca-file: has no meaning for %s, which is not grpcs://", f.endpoint)
	}
	security := insecure.NewCredentials()
	if encrypted {
		if security, err = trust(f.caFile); err != nil {
			return nil, err
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(security))
	return &adminClient{conn: conn, database: database}, err
}

// parseEndpoint takes a connection string apart, such as grpc://127.0.0.1:2136/local.
func parseEndpoint(endpoint string) (address, database string, encrypted bool, err error) {
	u, err := url.Parse(endpoint)
	if err == nil {
		endpoint = u.Redacted() // somebody may have put a password into it
	}
	if err != nil || u.Scheme != "grpc" && u.Scheme != "grpcs" || u.Path == "" || u.Path == "/" || u.User != nil {
		return "", "", false, usageError("flag --endpoint: value %q is not allowed: want grpc://HOST:PORT/DATABASE or grpcs://HOST:PORT/DATABASE", endpoint)
	}
	if _, port, err := net.SplitHostPort(u.Host); err != nil || !portInRange(port, 1) {
		return "", "", false, usageError("flag --endpoint: value %q is not allowed: want HOST:PORT behind the slashes", endpoint)
	}
	return u.Host, u.Path, u.Scheme == "grpcs", nil
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

func (c *adminClient) login(ctx context.Context, f *connectionFlags, passwords *passwordReader) error {
	var password string
	var err error
	if f.passwordFile != "" {
		password, err = readPasswordFile(f.passwordFile)
	} else {
		password, err = passwords.read("password of " + f.login)
	}
	if err != nil {
		return err
	}
	f.password = password
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(c.conn).Login(c.headers(ctx), &Ydb_Auth.LoginRequest{User: f.login, Password: password})
	if err != nil {
		return fmt.Errorf("log in as %s: %w", f.login, plain(err))
	}
	op := answer.GetOperation()
	var result Ydb_Auth.LoginResult
	if op.GetStatus() != Ydb.StatusIds_SUCCESS {
		return fmt.Errorf("log in as %s: %s", f.login, op.GetIssues()[0].GetMessage())
	}
	if err := op.GetResult().UnmarshalTo(&result); err != nil {
		return fmt.Errorf("log in as %s: %w", f.login, err)
	}
	c.token = result.GetToken()
	return nil
}

func (c *adminClient) headers(ctx context.Context) context.Context {
	if c.database != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-database", c.database)
	}
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", c.token)
	}
	return ctx
}

func (c *adminClient) call(ctx context.Context, method string, request, response proto.Message) error {
	return plain(c.conn.Invoke(c.headers(ctx), method, request, response))
}

func (c *adminClient) close() { _ = c.conn.Close() }

// plain is a gRPC error without what only programmers want to know.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}
