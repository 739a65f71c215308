// Package streams carries what clients' streams say to the leader and back: on this server, or over a relay to
// another one.
//
//	Stream      one client's stream: its Front, the present link, what waits for the client
//	Set         the streams of this server, which turn to another leader together
//	Link        the way to a leader: Local, where this server leads, or Relay
//	Uplink      finds the other server that leads, and keeps a Relay to it
//	Peers       the relays of other servers to this one as the leader, each a Peer
//	Unsaid      messages of the leader to streams, in slices
//
// The group behind it is a Core.
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
