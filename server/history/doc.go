// Package history keeps the rare events of a server for longer than its memory does: acts of administrators, sessions
// that ended with locks or without their clients, and changes of configuration. It writes them to files that have a
// fixed size together, and logs those that this server saw as the leader. DESIGN.md has the reasons.
package history
