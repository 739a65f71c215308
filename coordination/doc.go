// Package coordination is the coordination node itself: the effects of sessions' requests on semaphores, and the
// notifications of them.
//
// It is made of three rings, all pure: no clock, no I/O, no goroutine, no randomness. Their inputs are events, with the
// time as an argument, and their outputs are the actions to take.
//
//   - Machine is replicated. Every server feeds it the same log and holds the same state: the path tree, node
//     configurations, sessions, semaphores, owners, waiters, counters. Apply is the only way in.
//   - Leader is volatile and lives only where this server leads: which stream speaks for which session, who
//     is to be answered, one-shot watches, deadlines. It turns requests into commands and the machine's
//     effects into messages.
//   - Front is volatile and lives where a client's stream ends: the ping schedule, request ids, the stream's
//     own errors. It talks to the Leader in numbered messages, so that a relay can stand between the two.
//
// A Replica is a server's Machine and, where it leads, its Leader: the one way in which the two are driven,
// whether by a server or by a test.
//
// One request: Front.Receive numbers it, Replica.Forward takes it to Leader.Request, which checks sizes and
// ranges and makes a Command; the shell makes the command durable and committed and calls Replica.Committed, for which
// Machine.Apply returns effects and Leader.Applied turns them into messages for streams; Front.Deliver turns those into
// the client's messages.
//
// # Entries and positions
//
// The log's entries become durable, are committed and get lost as a whole; each carries some commands that follow each
// other. Their number does not matter: what a client sees is the same for every way to cut a list of commands into
// entries. So whatever notes where in the log something happened, to compare it with something else, notes a Position,
// the entry's index and the place in it: waits, watches, users, passwords, signing keys. What is true of a state as a
// whole, a checkpoint, a digest, a lineage, a proof of leadership, is true between entries, and goes by the index: that
// a call is not in the entries up to one, for example.
//
// # Invariants
//
// Machine.Check verifies them; tests call it after every step.
//
//  1. A semaphore's held tokens are the sum of its owners' counts and never exceed its limit.
//  2. Owners and waiters are each in ascending order id, and no owner's order id is above a waiter's.
//  3. The first waiter does not fit into the free tokens: otherwise it would be an owner.
//  4. A session has at most one link to a semaphore; every link hangs in exactly one of the semaphore's two
//     lists and in its session's list.
//  5. An ephemeral semaphore has an owner.
//  6. Ids in use are below the node's counters.
//  7. A resource is no faster than what it is below, and that is there, and older.
//  8. A list of more than 500 owners or waiters has pieces, and a list's pieces show its links as they are.
//
// Section numbers in comments refer to docs/dev/spec/coordination.md.
package coordination
