package protocol

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Endpoint is the address of a server.
type Endpoint struct {
	Address   string // HOST:PORT
	Database  string // "" if it is not named
	Encrypted bool
}

const endpointForms = "want HOST:PORT, grpc://HOST:PORT/DATABASE or grpcs://HOST:PORT/DATABASE"

// ParseEndpoint parses a connection string such as grpc://127.0.0.1:2136/local. YDB's tools write the database as
// ?database=/local too. Without a scheme it is plain text.
func ParseEndpoint(endpoint string) (Endpoint, error) {
	text := endpoint
	if !strings.Contains(text, "://") {
		text = "grpc://" + text
	}
	u, err := url.Parse(text)
	if err == nil && u.User != nil {
		endpoint = strings.TrimPrefix(u.Redacted(), "grpc://") // it may have a password in it
	}
	if err != nil || u.Scheme != "grpc" && u.Scheme != "grpcs" || u.User != nil || u.Fragment != "" {
		return Endpoint{}, fmt.Errorf("value %q is not allowed: %s", endpoint, endpointForms)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || host == "" || wrong != nil || number == 0 {
		return Endpoint{}, fmt.Errorf("value %q is not allowed: %s, with a port from 1 to 65535", endpoint,
			endpointForms)
	}
	at := Endpoint{Address: u.Host, Encrypted: u.Scheme == "grpcs"}
	if u.Path != "" && u.Path != "/" {
		at.Database = u.Path
	}
	query, err := url.ParseQuery(u.RawQuery)
	asked := query.Get("database")
	switch {
	case err != nil || len(query) > 1 || len(query) == 1 && !query.Has("database"):
		return Endpoint{}, fmt.Errorf(
			"value %q is not allowed: want nothing but database=PATH behind the question mark", endpoint)
	case asked != "" && at.Database != "":
		return Endpoint{}, fmt.Errorf("value %q is not allowed: it names two databases", endpoint)
	case asked != "":
		at.Database = path.Clean("/" + asked)
	}
	return at, nil
}

// Reconnecting makes a connection come back as soon as its server does.
var Reconnecting = grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second,
	Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 2, Jitter: 0.2,
		MaxDelay: 500 * time.Millisecond}})
