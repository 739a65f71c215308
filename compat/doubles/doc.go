// Package doubles has clients that behave on the wire like SDKs which cannot be installed where the tests
// run: C++, Java, Python, Rust and .NET. A double knows what its SDK sends and when, what it cannot bear, and
// what becomes of it then: an abort, a hang, a hot loop, a result that is lost. The tests want a server never
// to bring it there.
//
// A double proves how somebody has read an SDK, not the SDK: each says which version it was read from and
// where, each enters every one of its states of failure against a server that is wrong on purpose, and what
// it shows is called "double" in the results, never "passed". `make compat-doubles` runs them and prints the
// results.
package doubles
