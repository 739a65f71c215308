// Package relaypb has the messages in which the servers of a cluster speak to the leader for their clients, and compare
// their states. They are generated but for convert.go, which translates them to and from those of the rings.
package relaypb
