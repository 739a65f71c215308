// Package inspect is the service to look at coordination nodes, semaphores, sessions and resources
// (adminpb/inspect.proto), and what servers ask each other for it (clusterpb/inspect.proto).
//
// Nodes and semaphores are listed from what the asked server has applied, once that is up to date. Sessions
// are the leader's to list, because nobody else knows which of them have a client and how long the others
// live on. Who a client is knows only the server that holds its stream, so the asked server asks those that a
// page names, once for a page, and waits for them clientPatience. So it is with resources of rate limiters,
// whose properties all servers know, but of whose units each has a bucket of its own. Nothing of it is kept
// anywhere: while nobody asks it costs nothing.
//
// What happens is kept for a while (group.Watch), so that whoever begins to watch can begin where he left
// off. A watch reads it at its own pace, on the goroutine of its call: it holds up nobody, and is told of
// what it has missed.
package inspect
