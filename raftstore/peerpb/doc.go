// Package peerpb has the messages between the members of one cluster; see peer.proto.
package peerpb
