// Package protocol is a small client of YDB's coordination protocol, for coordd's own commands and for the exported
// package client. It works on any server of that protocol, and hides no status and no loss.
//
// A Client knows where servers are and who calls. Its Call is for the unary services. A Session is one
// session of a node, which moves to another server, or comes back to the same one, when its stream breaks.
//
// A session believes in itself only by its own clock: Session.Left counts from the moment at which the last
// ping or request that has been answered was sent. The server counts from a later moment, so a session whose
// Left has run out may still live, but one that has time left does. What the server sends by itself proves
// nothing, since it may have been long on its way.
//
// All methods may be called by several goroutines at a time.
package protocol
