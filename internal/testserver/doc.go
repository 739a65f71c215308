// Package testserver starts coordd for tests, benchmarks and doubles: as a process, as a cluster of processes, and on
// addresses that no other test takes meanwhile.
package testserver
