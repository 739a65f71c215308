// Package relaypb is generated: the messages in which the servers of a cluster speak to the leader for their
// clients, and compare their states.
package relaypb
