// Package listen accepts clients' connections: it limits how many an address may have, shows and verifies
// certificates, counts calls, the bytes of their messages and the streams that a client resets, and keeps idle
// connections cheap. Every dependency on gRPC's internals is in grpcinternals.go. The package knows nothing of
// sessions or the log.
package listen
