// Package testserver starts coordd for tests, benchmarks and doubles, in four layers: Listen and Addresses reserve
// ports that no other test takes meanwhile, Binary finds or builds the program, a Process is one run of it, and a
// Server or the servers of NewCluster keep their address, directory and log from one run to the next.
//
// It imports the standard library alone, so that tests in modules of their own can use it without the server's modules.
package testserver
