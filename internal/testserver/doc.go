// Package testserver starts coordd for tests, benchmarks and doubles, in four layers: Addresses reserves addresses that
// no other test takes meanwhile, Binary finds or builds the program, a Process is one run of it that dies with the
// test, and a Server or the servers of NewCluster keep their address, directory and log from one run to the next.
//
// It imports the standard library alone. The modules compat/go and compat/go/upstream link its folder into their own:
// if they required the server's module, it would raise the versions with which they test the SDK.
package testserver
