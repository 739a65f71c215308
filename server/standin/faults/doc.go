// Package faults makes things go wrong on demand on a server that was started as a stand-in: answers that
// refuse, that come late or never, streams and connections that end in every way a network knows. A server
// that is not a stand-in has nothing of it.
//
// # Where
//
// A Set stands between gRPC and the server: it sees what clients send before the server does, and what the
// server answers before clients do. So of each fault it is plain whether it comes before the request is
// executed or behind that, and no fault makes a server say what it could not say: what the protocol has no
// place for is refused, unless it is asked for as Impossible. docs/faults.md has the table of all faults, and
// a test of each.
//
// # Who calls
//
// The methods of a Set may be called at any time, by anybody. Rules count down under one lock, so
// FailNext(Acquire, 1, ...) hits one request however many come at once.
package faults
