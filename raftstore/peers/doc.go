// Package peers carries what the members of one cluster say to each other. It knows connections, streams and frames;
// the raftstore decides which callers are members, and what becomes of a message. DESIGN.md describes the wire.
//
// Transport sends: every other member has two lanes, each a bounded queue with a goroutine and a connection of its own,
// one for heartbeats, votes and answers, one for the log. Network carries; GRPC is the one of a running server.
package peers
