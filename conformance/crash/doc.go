// Package crash kills a server at any moment and compares what it says after the restart with what it had acknowledged
// before. Its tests run the built binary.
package crash
