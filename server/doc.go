// Package server is the public face: it speaks the protocol over gRPC, asks the group (package group) and
// words the answers. No rule of the protocol lives here.
//
//   - session is the connection of one client's Session stream: one goroutine that reads. Replies are written
//     by the writers, a few goroutines shared by all streams, so that an idle stream costs no writer. Where a
//     client may not have read what it was sent (progress.go), others do that, so that it holds up nobody.
//   - the services (coordination, scheme, discovery, auth, and our own for users) turn unary calls into
//     commands and reads of the group. That to look at locks and sessions is package inspect. Every call is
//     bounded (package calls).
//   - the authenticator finds out who calls, once for a call or a stream. The enforcer, a goroutine of its own,
//     ends open streams whose token, user or right is gone.
//   - the lookout, two goroutines, finds out whether this server can serve clients, and tells others
//     (readiness.go).
//   - one gRPC server serves the plain and the TLS listener; package listen tells their connections apart.
//
// # Locks and order
//
// Those of the group come first (see there). The group calls a session under its stream's lock, so what a
// session does then is short: the writers' lock is the only one it takes.
package server
