// Package group is one replicated log with everything that stands on it: the machine that every member computes from
// the log, the leader where this server leads, the relay to the leader where another one does, and the streams of this
// server's clients. A process may have several groups; they share nothing.
//
// The group passes the news of log, streams and callers to a coordination.Replica, and does the work that comes back;
// the rules are all there. It knows neither the messages of YDB nor connections, certificates and tokens: the server
// calls it, makes a Client for every stream, and words the answers.
//
// The files, in an order to read them: core.go, queue.go, turn.go, apply.go, carry_out.go, entries.go (a turn and its
// parts); group.go, load.go (start and stop); calls.go, reads.go, rounds.go (calls); the packages streams and limiter;
// leadership.go; checkpoint.go, backup.go and package compare. The others are short and stand for themselves.
// The glossary is in docs/dev/architecture.md.
//
// # The turn
//
// Requests of streams and calls, and the news of the log, go into the queue. The holder of the turn handles them, first
// the news and then the requests, and alone touches the core with the Replica. On an idle server the goroutine that
// brought the event takes the turn, which saves waking another one: kick and workIfFree try for the turn and never wait
// for it. While something is on its way to the disk, requests gather for the next batch. The goroutine that writes the
// log and those that read from other servers must not be held up, so they take short turns only (queue.takeLittle);
// longer ones are left to the group's own goroutine, run.
//
// The log has a turn of its own; both are a turn.Turn (package internal/turn). They differ in this: there every turn
// handles everything and may fail, here a turn may be too long for the goroutine that has it.
//
// The commands of a turn are one entry of the log, within limits, and their answers come behind the whole entry
// (entries.go). With an entry that is lost its reign is lost, so its requests are treated like one that was lost alone:
// streams send them to the next leader in their rosters, calls are repeated.
//
// Within a turn nothing blocks: messages for streams go into their Fronts, those for other servers into the
// relay's list, commands into the log's queue. A panic within a turn ends the group (InvariantError).
//
// # Parts
//
// core.go declares the state, by the code that may touch it. A Group is the face for callers. Its core belongs to
// the holder of the turn: hold hands it out for the token of the present turn, which is void once the turn is
// given back, and all methods of core run in that turn. Any goroutine may use what is shared; of that, the holder
// of the turn alone writes what is published. The parts have locks of their own, and use the group through
// their Core (inside). A method of a part that runs only within a turn takes the token.
//
//	streams    clients' streams, and the relays between servers (package streams)
//	limiter    the buckets of rate limiters (package limiter)
//	comparer   the digests of the servers' states (package compare)
//	events     the last events, for watchers (package events)
//	Slow       the slowest requests, and the times of the last entries (package slow)
//	rounds     reads that share a question to the leader (rounds.go)
//
// # Locks
//
// They are taken in this order, from left to right. None is held across I/O, except the turn while a state is read that
// another member has sent.
//
//	turn → limiter → streams: Peers → Peer.admitting → Peer → Set → Stream → queue, Relay, what the Client has
//
// At any place Uplink, rounds, the Comparer, events, a Budget and Copies may be taken, under which nothing else is.
// No goroutine waits for the turn while it holds another lock: kick is called without one, and under a lock the bell is
// rung instead, which makes run take the turn.
//
// Four things rest on it.
//
//   - A stream forwards into its link under its lock, so the leader sees its messages in the order in which
//     its Front made them.
//   - All streams turn to another leader under the lock of the Set, so a stream that comes meanwhile either
//     has the old leader and turns with the others, or has the new one.
//   - The leader decides on a permit under the lock of the Peer, and looks there in one look (Set.grants) at
//     the present link and the lease, and whether the relay is lost: abandon takes the same lock before it
//     counts relayLease, so no permit is given after the sessions behind a relay count as detached.
//   - The follower keeps both ends of a permit, by the clock and by the time of day, under the lock of the
//     Relay, and a stream reads the present link and its permit under its own lock just before it sends.
//
// # Goroutines
//
//   - run, one for each group: takes the turns that nobody else takes.
//   - Limiter.run, one for each group: shares out units of rate limiters by ticks, and wakes the calls that
//     wait for some.
//   - where there may be other members, Uplink.relay, which keeps the relay to the leader, Uplink.wakeMutedStreams,
//     and Comparer.compareDigests, with one for each question to another server, for which it waits. An open relay has
//     four more: one that writes, one that waits for another leader, and two that ask for a permit.
//   - for each relay towards this server one that reads and one that writes, and for each stream of permits one that
//     reads, besides those of the RPCs themselves.
//   - for the time of a backup one that waits for its checkpoint; for the time of Stop one that waits for the
//     relays; one to end a stream whose roster is too large to travel, or whose texts cannot be encoded.
//   - timers: a stream's own (pings, timeouts, an end that its client does not read), the leader's watch over a relay
//     and the streams of one that broke.
//
// The rings' timers go by Config.Clock, all others by Config.Shell, which is the real clock except in tests. The user
// of a stand-in turns the first by hand: Still (still.go) reports whether everything is done that was due, and each
// stream has a timer of the real clock that pings its client.
//
// All other goroutines belong to other packages and call in: the handlers of clients, the log's goroutines (handler),
// those of gRPC.
//
// # Comparing states
//
// The leader puts a mark into the log when one is due (mark in checkpoint.go). There every server takes its checkpoint,
// unless another one is under way (checkpointAtMark), and with the last slice the digest is known. compareDigests
// exchanges it with all other members; for a pair one question is enough, put by the later of the two. It judges
// (package compare) whenever a digest comes, and ends the server if a majority of the voters has another state. A
// checkpoint that is due by the log waits for a mark (awaitsMark), which the leader writes when its own is due. It is
// taken without one if the mark does not come, or if not every server could read it yet.
//
// # Rate limiters
//
// To acquire units takes no turn: limiter has the buckets of this server and, where it leads, the distribution among
// all servers, under a lock of its own (package limiter). It reads the machine's resources within turns: when a call
// names one for the first time, when its properties have changed, and when a server asks the leader for one that it
// does not know. Relays carry demands and quanta.
//
// # What happens when the leader changes
//
// Raft decides. raftstore calls Following or Leading, and a turn of run handles that (handleStore). A reign is the
// time for which a server serves as the leader. A message in the leader's queue names its reign; the next one drops it.
//
//  1. On every server Following turns all streams to no leader (setLeader, Set.Follow). A Front is an orphan from
//     then on: it keeps open requests and replies and claims its session, so the client hears nothing, not even a
//     ping. Uplink.Toward ends the relay to the old leader, and wakes calls (AskLeader) and reads (passBarrier).
//  2. The old leader has lost its lease when it handles this; one that is cut off loses it 0.85 s after the last
//     round that a majority confirmed (package lease). Its Leader is dropped, with attachments, watches, deadlines
//     and messages not delivered yet. Local.End ends the relays of other servers. Its entries may still be committed:
//     all execute them.
//  3. The new leader is elected with Leading, and serves once it has executed the first entry of its term, and
//     so all that earlier leaders have written (Replica.serve). Every session counts as detached from this moment: it
//     has its timeout and grace period, or the rest of them that the log gives. In the same turn the server's own
//     streams follow a Local, and their rosters come into the queue: session, epoch and open requests (Front.Rejoin).
//  4. Every other server opens a Relay to it (Uplink.relay) and asks for a permit, the right to speak to clients for
//     relayPermit from the asking. The leader grants it as long as it has its lease. At its first answer the streams
//     join the relay, and their rosters travel.
//  5. Leader.Resume takes a roster: the stream with the highest epoch has the session and gets Resumed. A request
//     that was executed gets the outcome that the machine remembers, or Pending while it waits; any other is executed
//     now. The Front claims no more. It speaks while its server has the lease or a permit, beginning with the replies
//     that it kept.
//  6. A call that the old leader had is repeated under its CallID, so it is executed once. Every read puts its
//     question again. The limiter sends all its demands to the new leader.
//
// A client keeps its stream and its locks. It gets nothing for as long as the election takes, and then each answer
// once. Its stream ends if no leader comes within the node's grace period (UNAVAILABLE), if the session is over or
// was attached elsewhere, or if a request's outcome cannot be known any more (Failure). A watch fires if the
// semaphore may have changed.
//
// No two servers speak for a session: lease and permit of the old leader are over within 0.85 + 0.4 s, and under
// the next one a session that may have a client lives for its grace period at least, which is 1.5 s or more. A relay
// that breaks without a leader change counts in the same way: its follower is silent (unfollow), and relayLease later
// the leader detaches the streams that have not come back over another relay (Peer.abandon).
//
// A planned change (Transfer) costs no grace period. The leader gives no permit any more and has the others drop
// theirs (Peers.Hush), or waits until the last is over; then it logs Quiet, and is silent itself until the leadership
// has moved, or until it has executed the end of Quiet.
package group
