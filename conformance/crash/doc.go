// Package crash tests clusters of the built binary beyond the plans of conformance/sim: fail-over under default
// settings, the replacement of one program by another, and clients that stay with a server which is cut off. Two tests
// are the short forms of make cluster-test and make crash-test, which run such plans with processes.
package crash
