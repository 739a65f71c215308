// Package listen is what happens to a connection before a call is served on it: how many an address may have,
// which certificates are shown and asked for, what resets cost, and how idle connections are kept cheap.
// Everything that leans on details of gRPC's transport is here. It knows nothing of calls, sessions or the
// log.
package listen
