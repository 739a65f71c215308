// Package clusterpb is generated: the messages in which the servers of a cluster ask each other for what an
// operator wants to know of all of them.
package clusterpb
