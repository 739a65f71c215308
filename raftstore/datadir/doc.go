// Package datadir is the data directory of one member: its identity, its log, its checkpoint, and what an operator does
// with it while no server runs: check, restore, force. Package raftstore's comment lists the files. Open verifies a
// directory before it changes anything, by the rule in examine.go.
package datadir
