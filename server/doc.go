// Package server is the public face: it speaks the protocol over gRPC, feeds the pure rings of package coordination and
// carries out what they say. No rule of the protocol lives here.
//
//   - group owns the machine and the leader on one goroutine: requests and committed entries come in, commands for the
//     log and messages for the streams go out. Nothing else touches the rings.
//   - sessionStream is one client's Session stream: one goroutine that reads. Replies are written by the writers, a few
//     goroutines shared by all streams, so that an idle stream costs no writer and a slow reader holds up nobody.
//   - the services (coordination, scheme, discovery, auth, and our own for users) turn unary calls into commands and reads
//     of the group. Every call is bounded (patience.go). A read asks for the leadership first (barrier.go), captures in
//     its turn no more than references to what never changes, and is worked up outside (reads.go).
//   - the authenticator finds out who calls, once for a call or a stream. The keeper, a goroutine of its own, ends open
//     streams whose token, user or right is gone.
//   - one gRPC server serves the plain and the TLS listener; transportSecurity tells their connections apart.
//
// # Locks and order
//
// A stream's lock is held for a few instructions of its Front, never across I/O. What a Front forwards is put into the
// group's queue under that lock, so the leader sees a stream's messages in the order in which the Front made them.
package server
