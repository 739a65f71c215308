// Package calls executes unary calls on the group: it bounds the time of each, runs its command or read, and turns the
// outcome into YDB's Operation or a status of gRPC. Every call is answered within the least of Patience, its
// operation_timeout, its cancel_after, and its caller's deadline.
package calls
