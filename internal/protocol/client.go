package protocol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Config says where servers are, and who calls.
type Config struct {
	// Dial makes a connection to a server. It does not wait for it.
	Dial func(address string) (*grpc.ClientConn, error)
	// Address is the server that is asked first.
	Address string
	// Database is the path that callers name; empty: the server has only one, as at its administrator's
	// socket.
	Database string
	// Discover has sessions learn of the cluster's other servers, to move to when theirs is gone.
	Discover bool
	// Encrypted servers are the only ones that count among those.
	Encrypted bool
	// Login returns a token; nil: none is sent. It is called again when a server takes the last one no
	// longer.
	Login func(ctx context.Context, conn *grpc.ClientConn) (token string, err error)
	// Name is the program's name in x-ydb-sdk-build-info.
	Name string
}

// serversMax bounds what discovery may name: a client has no use for more.
const serversMax = 64

// Client calls servers.
type Client struct {
	config Config

	mu        sync.Mutex
	conns     map[string]*grpc.ClientConn
	addresses []string // the one that was given first
	asked     string   // the one that unary calls go to
	token     string
	loggedIn  bool
}

// New makes a client. Nobody is called yet.
func New(config Config) *Client {
	return &Client{config: config, conns: make(map[string]*grpc.ClientConn),
		addresses: []string{config.Address}, asked: config.Address}
}

// Close ends all calls and connections. Sessions that were not closed live on until their timeout.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for address, conn := range c.conns {
		_ = conn.Close()
		delete(c.conns, address)
	}
}

// Conn is the connection to the server that was given.
func (c *Client) Conn() (*grpc.ClientConn, error) { return c.conn(c.config.Address) }

func (c *Client) conn(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := c.config.Dial(address)
	if err == nil {
		c.conns[address] = conn
	}
	return conn, err
}

// Token returns the caller's token, "" without one. It logs in, if that was not done yet.
func (c *Client) Token(ctx context.Context, conn *grpc.ClientConn) (string, error) {
	c.mu.Lock()
	token, loggedIn := c.token, c.loggedIn
	c.mu.Unlock()
	if c.config.Login == nil || loggedIn {
		return token, nil
	}
	token, err := c.config.Login(ctx, conn)
	if err == nil {
		c.mu.Lock()
		c.token, c.loggedIn = token, true
		c.mu.Unlock()
	}
	return token, err
}

// Login returns a token for a user's password. Without a database the server has only one, or knows its default.
func Login(ctx context.Context, conn *grpc.ClientConn, database, user, password string) (string, error) {
	if database != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-database", database)
	}
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(conn).Login(ctx,
		&Ydb_Auth.LoginRequest{User: user, Password: password})
	if err != nil {
		return "", err
	}
	var result Ydb_Auth.LoginResult
	if err := resultOf(answer.GetOperation(), &result); err != nil {
		return "", err
	}
	return result.GetToken(), nil
}

// Trust returns the security of connections by TLS that trust the authorities of a PEM file, "" for the system's.
func Trust(caFile string) (credentials.TransportCredentials, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in it", caFile)
		}
	}
	return credentials.NewTLS(config), nil
}

// With adds to a context what a server wants to know of every call.
func (c *Client) With(ctx context.Context, conn *grpc.ClientConn) (context.Context, error) {
	token, err := c.Token(ctx, conn)
	if err != nil {
		return ctx, err
	}
	for _, header := range []struct{ name, value string }{
		{"x-ydb-database", c.config.Database}, {"x-ydb-auth-ticket", token},
		{"x-ydb-sdk-build-info", c.config.Name},
	} {
		if header.value != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, header.name, header.value)
		}
	}
	return ctx, nil
}

// refuseToken has the next call log in again.
func (c *Client) refuseToken() {
	c.mu.Lock()
	c.loggedIn = false
	c.mu.Unlock()
}

// Invoke makes a unary call at the server that was given, or that Move has chosen. A token that is taken no longer is
// replaced once.
func (c *Client) Invoke(ctx context.Context, method string, request, response proto.Message) error {
	conn, err := c.conn(c.Asked())
	if err != nil {
		return err
	}
	for again := c.config.Login != nil; ; again = false {
		with, err := c.With(ctx, conn)
		if err != nil {
			return err
		}
		err = conn.Invoke(with, method, request, response)
		if status.Code(err) != codes.Unauthenticated || !again {
			return err
		}
		c.refuseToken()
	}
}

// Call makes a unary call of YDB's services. result, if it is not nil, is filled from the operation. A
// refusal is a *Refused.
func (c *Client) Call(ctx context.Context, method string, request, result proto.Message) error {
	operation, err := c.Operate(ctx, method, request)
	if err != nil {
		return err
	}
	return resultOf(operation, result)
}

// Operate makes a unary call of YDB's services and returns the operation, whether it has succeeded or not.
func (c *Client) Operate(ctx context.Context, method string, request proto.Message) (*Ydb_Operations.Operation, error) {
	answer := new(Ydb_Operations.GetOperationResponse) // all answers have their operation in the same field
	err := c.Invoke(ctx, method, request, answer)
	return answer.GetOperation(), err
}

func resultOf(operation *Ydb_Operations.Operation, result proto.Message) error {
	if err := Answered(operation.GetStatus(), operation.GetIssues()); err != nil || result == nil {
		return err
	}
	if operation.GetResult() == nil {
		return errors.New("the server's answer has no result")
	}
	return operation.GetResult().UnmarshalTo(result)
}

// Asked returns the address of the server that unary calls go to.
func (c *Client) Asked() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// Discover learns of the servers to which Move may go.
func (c *Client) Discover(ctx context.Context) {
	if conn, err := c.conn(c.Asked()); err == nil && c.config.Discover {
		c.discover(ctx, conn)
	}
}

// Move makes unary calls go to the next server that is known, which may be the same one.
func (c *Client) Move() {
	next := c.following(c.Asked())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = next
}

// discover learns of the other servers from one of them. What cannot be learnt is left as it was.
func (c *Client) discover(ctx context.Context, conn *grpc.ClientConn) {
	ctx, err := c.With(ctx, conn)
	if err != nil {
		return
	}
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn).ListEndpoints(ctx,
		&Ydb_Discovery.ListEndpointsRequest{Database: c.config.Database})
	result := new(Ydb_Discovery.ListEndpointsResult)
	if err != nil || resultOf(answer.GetOperation(), result) != nil ||
		answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		return
	}
	addresses := []string{c.config.Address}
	for _, endpoint := range result.GetEndpoints() {
		address := net.JoinHostPort(endpoint.GetAddress(), strconv.Itoa(int(endpoint.GetPort())))
		if endpoint.GetSsl() == c.config.Encrypted && !slices.Contains(addresses, address) &&
			len(addresses) < serversMax {
			addresses = append(addresses, address)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses = addresses
	for address, conn := range c.conns { // of servers that have left
		if !slices.Contains(addresses, address) && len(c.conns) > serversMax {
			_ = conn.Close()
			delete(c.conns, address)
		}
	}
}

// following is the server to try after another one.
func (c *Client) following(address string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.addresses, address)
	return c.addresses[(at+1)%len(c.addresses)]
}

// servers is the number of servers to try.
func (c *Client) servers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.addresses)
}
