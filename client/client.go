package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/protocol"
)

// Config configures a client.
type Config struct {
	// Endpoint is the server to connect to first, such as grpc://127.0.0.1:2136/local, or grpcs:// with TLS. Other
	// servers of its cluster are learnt from it.
	Endpoint string
	// TLS configures connections of grpcs endpoints; nil: they trust the system's authorities.
	TLS *tls.Config
	// User and Password log in; empty: no login.
	User, Password string
	// Token returns an access token, in the place of a login; nil: no token is sent. It is called again when a server
	// no longer accepts the last one.
	Token func(ctx context.Context) (string, error)
	// Name is the program's name for the server's log; empty: "coordd-client".
	Name string
}

// Client has the connections to the servers of a cluster.
type Client struct{ protocol *protocol.Client }

// New makes a client. It connects when it is first used.
func New(config Config) (*Client, error) {
	at, err := protocol.ParseEndpoint(config.Endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: Endpoint: %w", err)
	case at.Database == "":
		return nil, fmt.Errorf("client: Endpoint: value %q names no database: want grpc://HOST:PORT/DATABASE",
			config.Endpoint)
	case config.User != "" && config.Token != nil:
		return nil, errors.New("client: User and Token: give one of them")
	}
	security := insecure.NewCredentials()
	if at.Encrypted {
		settings := config.TLS
		if settings == nil {
			settings = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		security = credentials.NewTLS(settings)
	}
	if config.Name == "" {
		config.Name = "coordd-client"
	}
	settings := protocol.Config{Address: at.Address, Database: at.Database, Encrypted: at.Encrypted, Discover: true,
		Name: config.Name, Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:///"+address, protocol.Reconnecting,
				grpc.WithTransportCredentials(security))
		}}
	switch {
	case config.Token != nil:
		settings.Login = func(ctx context.Context, _ *grpc.ClientConn) (string, error) { return config.Token(ctx) }
	case config.User != "":
		settings.Login = func(ctx context.Context, conn *grpc.ClientConn) (string, error) {
			return protocol.Login(ctx, conn, at.Database, config.User, config.Password)
		}
	}
	return &Client{protocol.New(settings)}, nil
}

// Close closes the connections. Close sessions first: those that are open live on at the server until their timeout.
func (c *Client) Close() { c.protocol.Close() }

// CreateNode creates the coordination node with an absolute path, such as /local/app. One that exists is left as it is.
func (c *Client) CreateNode(ctx context.Context, path string) error {
	return exported(c.protocol.Call(ctx, Ydb_Coordination_V1.CoordinationService_CreateNode_FullMethodName,
		&Ydb_Coordination.CreateNodeRequest{Path: path}, nil))
}
