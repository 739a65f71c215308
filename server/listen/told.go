package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/internal/netguard"
)

// Log lines about connections, caused by clients or by the lack of descriptors. They are rate-limited with a
// lograte.ByKey: strangers can cause them as often as they like.

// tellHandshake logs a failed TLS handshake. A connection without any byte, as of a port check, is logged at debug
// level.
func (c *Connections) tellHandshake(conn net.Conn, err error) {
	level, kind := slog.LevelWarn, "handshake "
	if errors.Is(err, io.EOF) {
		level, kind = slog.LevelDebug, "no handshake "
	}
	if !c.logger.Enabled(context.Background(), level) {
		return
	}
	if ok, hidden := c.told.Allow(kind+netguard.Network(conn.RemoteAddr()), c.now()); ok {
		c.logger.Log(context.Background(), level, "a TLS handshake has failed", "remote",
			conn.RemoteAddr().String(), "why", handshakeText(err), lograte.Suppressed, hidden)
	}
}

// handshakeText is why a handshake failed, with what it means where Go's words do not say.
func handshakeText(err error) string {
	var header tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	text := lograte.Printable(err.Error(), 300)
	switch {
	case errors.As(err, &header):
		return text + ": the client speaks plain text, as with grpc:// in the place of grpcs://"
	case errors.As(err, &verification):
		return text + ": the client's certificate is not of the authorities of --tls-client-ca"
	case errors.Is(err, io.EOF):
		return "the client closed the connection"
	}
	var alert *net.OpError // with which a client says why it goes
	if errors.As(err, &alert) && alert.Op == "remote error" {
		return text + ": so says the client, which may not trust the certificate"
	}
	return text
}

// tellAccept logs that a connection could not be accepted, for another reason than the lack of descriptors.
func (c *Connections) tellAccept(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	if ok, hidden := c.told.Allow("accept", c.now()); ok {
		c.logger.Warn("a connection could not be accepted", "error", err, lograte.Suppressed, hidden)
	}
}

// tellAddress logs that an address has too many connections and no more are accepted.
func (c *Connections) tellAddress(address string) {
	if ok, hidden := c.told.Allow("address "+address, c.now()); ok {
		c.logger.Warn("an address has too many connections: further ones are closed", "address", address,
			"limit", c.limits.ConnectionsPerAddress, lograte.Suppressed, hidden)
	}
}

// tellResets logs that a connection is cut off.
func (c *Connections) tellResets(conn net.Conn) {
	if ok, hidden := c.told.Allow("resets "+netguard.Network(conn.RemoteAddr()), c.now()); ok {
		c.logger.Warn("connection cut off", "remote", conn.RemoteAddr().String(), "error", errTooManyResets,
			lograte.Suppressed, hidden)
	}
}
