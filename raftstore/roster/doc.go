// Package roster decides which senders a member admits: by the membership in its own log, and by what other members
// have answered (package membership judges the answers). It asks them from a goroutine of its own, makes durable what
// it must not forget, and knows the incarnations of members before the log has them. It sees the store as the few
// functions of Config. raftstore/DESIGN.md says why it is so.
package roster
