// Package streams carries messages between clients' streams and the leader: on this server, or over a relay to another
// one.
//
//	Stream      one client's stream: its Front, the present link, what waits for the client
//	Set         the streams of this server, which turn to another leader together
//	Link        the way to a leader: Local, where this server leads, or Relay
//	Uplink      finds the other server that leads, and keeps a Relay to it
//	Peers       the relays of other servers to this one as the leader, each a Peer
//	Unsaid      messages of the leader to streams, in slices
//
// Both directions have their names: a Forwarded travels to the leader, a coordination.Message to a stream. On a relay the
// follower's end is a Relay, which holds a permit to speak; the leader's end is a Peer, which grants it.
//
// The group uses the package through these types, and is a Core to it.
//
// # Locks
//
// From left to right; none is held across I/O.
//
//	Peers → Peer.admitting → Peer → Set → Stream → Relay, a Budget, Copies, Uplink, and what Core.Put, Core.Ring and
//	the Client take
//
// Core.Kick is called without any of them: it may take the group's turn.
package streams
