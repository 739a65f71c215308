// Package netguard limits the connections of listeners: how many may be open at once, how many of one network, and
// how many without proof of who is at the other end.
//
// A connection is unproven when it is accepted. Its server proves it with the first authenticated call. At the
// limits a new connection is accepted and another one is evicted in its place, in this order:
//
//   - the oldest unproven connection of the network that has the most of them. A flood from one network so evicts
//     its own connections, and a client elsewhere keeps the time that it needs to authenticate;
//   - the connection that has been idle for longest: proven, and without a call;
//   - a connection that has forfeited its proof, such as that of a removed member of the cluster.
//
// A connection that is in use is never evicted; if nothing else is open, the new one is refused.
package netguard
