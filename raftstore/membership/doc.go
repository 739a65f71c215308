// Package membership has the rules of a cluster's membership: the effect of each membership entry of the log (Conf),
// the senders that are admitted (List), and the conclusions from the lists of other servers (Asker). It is pure,
// without a clock, a file or a network. Package raftstore asks, stores and acts.
package membership
