// Package doubles has clients that behave on the wire like SDKs which cannot be installed where the tests
// run: C++, Java, Python, Rust and .NET. A double knows what its SDK sends and when, what it cannot bear, and
// what becomes of it then: an abort, a hang, a hot loop, a result that is lost. The tests want a server never
// to bring it there.
//
// A double proves a reading of an SDK, not the SDK: each names the version and the place it was read from, each enters
// every one of its states of failure against a server that is wrong on purpose, and its results are called "double",
// never "passed". `make compat-doubles` runs them and prints the results.
package doubles
