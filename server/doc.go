// Package server is the public face: it speaks the protocol over gRPC, asks the group (package group) and
// words the answers. No rule of the protocol lives here.
//
//   - Session streams are served by package sessions, and unary calls by packages services, users, admin and
//     inspect, which turn them into commands and reads of the group. Every call is bounded (package calls).
//   - the authenticator finds out who calls, once for a call or a stream. The enforcer, a goroutine of its own,
//     ends open streams whose token, user or right is gone.
//   - package readiness finds out whether this server can serve clients, and answers health checks.
//   - one gRPC server serves the plain and the TLS listener; package listen distinguishes their connections.
//
// # Locks and order
//
// Those of the group come first (see there). The group calls a session under its stream's lock, so what a
// session does then is short: the writers' lock is the only one it takes.
package server
