// Package group is one replicated log with what stands on it: the machine that every member computes from the
// log, the leader where this server leads, the relay to the leader where another one does, and the streams of
// the clients that this server has. A process may have several; they share nothing.
//
// The group tells a coordination.Replica what the log, the streams and the callers say, and carries out what
// that wants done; the rules are all there. It knows neither the messages of YDB nor connections,
// certificates and tokens: the server asks it, gives it a Client for every stream, and words the answers.
//
// # The turn
//
// Whoever brings something puts it into the queue: requests of streams and calls, and what the log says.
// The holder of the turn handles what is there, first the log's news and then the requests, and alone touches
// the core with the Replica (apply.go, turn.go). On a quiet server that is the goroutine that brought it, which spares the
// way over another one: kick and workIfFree try for the turn and never wait for it. While something is on
// its way to the disk, requests gather for the next batch. The goroutine that writes the log and those that
// read what other servers say must not be held up, so they take short turns only (queue.takeLittle); what
// takes long is left to the group's own goroutine, run.
//
// The log has a turn of its own; both are a turn.Turn (package internal/turn). They differ in what a holder
// does: there every turn does everything and may fail, here a turn may be too long for the goroutine that has
// it.
//
// What the leader proposes in a turn is one entry of the log, within limits, and its answers come behind the
// whole entry (entries.go). An entry that is lost is lost with the reign, so whoever waits for one of its
// commands hears what he would of a command that was lost alone: streams tell the next leader, calls are
// repeated to it.
//
// Within a turn nothing blocks: messages for streams go into their Fronts, those for other servers into the
// relay's list, commands into the log's queue. A panic within a turn ends the group (InvariantError).
//
// # Parts
//
// core.go declares the state, by the code that may touch it. A Group is the face for callers. Its core belongs to
// the holder of the turn: hold hands it out for the token of the present turn, which is void once the turn is
// given back, and all methods of core run in that turn. Any goroutine may use what is shared; of that, the holder
// of the turn alone writes what is published. The parts have locks of their own, and see of the group the methods
// of their Core (inside). What a part may do only within a turn takes the token.
//
//	streams    clients' streams, and the relays between servers (package streams)
//	limiter    the buckets of rate limiters (package limiter)
//	comparer   the digests of the servers' states (package compare)
//	events     the last events, for those that watch (package events)
//	rounds     reads that share a question to the leader (rounds.go)
//
// # Locks
//
// They are taken in this order, from left to right. None is held across I/O, but for the turn while the state
// of another member is read that was installed here.
//
//	turn → limiter → streams: Peers → Peer.admitting → Peer → Set → Stream → queue, Relay, what the Client has
//
// At any place Uplink, rounds, the Comparer, events, a Budget and Copies may be taken, under which nothing else is.
// No goroutine waits for the turn while it holds another lock: kick is called without, and where there is one
// the bell is rung instead, upon which run takes the turn.
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
//     which sends the streams that were mute, and Comparer.compareDigests, with one for each question to another
//     server, which it waits for. An open relay has four more: one that writes, one that waits for another
//     leader, and two that ask for a permit.
//   - for each relay towards this server one that reads and one that writes, besides that of the RPC itself.
//   - for the time of a backup one that waits for its checkpoint; for the time of Stop one that waits for the
//     relays; one to end a stream whose roster is too large to travel.
//   - timers: a stream's own (pings, timeouts, the end that nobody reads), the leader's watch over a relay
//     and the streams of one that broke.
//
// The rings' timers go by Config.Clock, all others by Config.Shell, which is the real clock for everybody but
// tests. In a stand-in somebody turns the first by hand; still.go is for him: Still reports whether
// everything is done that was due, and a stream has a timer of the real clock that reminds its client.
//
// All others belong to somebody else and call in: the handlers of clients, the log's goroutines (handler),
// those of gRPC.
//
// # Comparing states
//
// The leader puts a mark into the log when one is due (mark in checkpoint.go); every server takes its checkpoint
// there, if it has none under way (checkpointAtMark), and when the last slice is captured the digest is
// known. compareDigests tells it to all other members and hears theirs; a pair needs only one question that
// gets through, put by the later of the two. It judges (package compare) what is known whenever that changes, and
// ends the server if a majority of the voters has another state. A checkpoint that is due by the log waits
// for a mark (awaitsMark), which the leader writes when its own is due, and is taken without one if that does
// not come, or cannot be read by every server yet.
//
// # Rate limiters
//
// To acquire units takes no turn: limiter has the buckets of this server, and where it leads what is shared
// out among all, under a lock of its own (package limiter). It learns of the machine's
// resources within turns: when a call names one for the first time, when what counts for one has changed, and
// when the leader is asked for one that it does not know. Relays carry what servers ask for and are given.
//
// # A leader change
//
// The words for it, in the order of what happens.
//
//	reign     Replica       is the time of one leader on this server; what was said to another is void, calls are lost
//	setLeader apply.go      takes note of a reign that began or ended
//	follow    Set           has all streams speak to the leader behind a link; nil: they wait for the next
//	orphan    Front         is what a stream becomes at that moment: silent until a leader has answered for it
//	Toward    Uplink        notes which other server leads, and opens a Relay to it
//	Hello     Relay         names the server that opens it, and which of two relays of one server is the later
//	supersede Peers         ends the earlier one at the leader
//	renew     Relay         asks for a permit: the right to speak to clients for relayPermit, counted from the asking;
//	                        over the relay, and over the connection of the heartbeats, which no data holds up (relay_permit.go)
//	join      Set           has the streams follow the relay once its first answer shows that the other side leads
//	Rejoin    Front         makes the roster: which session the stream speaks for and what of it is not answered
//	Resume    Leader        takes the roster: the highest epoch wins, what was done before is answered as it was
//	claims    Front         says that no leader has answered for the session yet; once one has, the stream speaks
//	unfollow  Set           has the streams of a relay that broke wait for the next leader
//	quiet     Group         before a planned change: nobody speaks to clients, and the log has it (Transfer)
//	Hush      Peers         wants permits dropped for it; one that is not dropped lasts for relayLease at most
//	abandon   Peer          detaches the streams behind a relay that broke, relayLease later
package group
