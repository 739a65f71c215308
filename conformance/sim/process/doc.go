// Package process is the contract between a world whose servers are processes and the program that each of them runs,
// conformance/sim/process/simserver: its setup, the faults that it is ordered to have while it runs, and its journal of
// the entries that it executes.
//
// The program prints lines: "listen ADDRESS REAL" for each listener, "due KIND" when an operation on a file waits for
// an answer, and at last the connection string of `coordd serve`.
package process
