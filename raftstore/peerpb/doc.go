// Package peerpb is what the members of one cluster say to each other; see peer.proto.
package peerpb
