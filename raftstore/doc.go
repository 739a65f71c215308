// Package raftstore keeps one replicated log: it makes commands durable and agreed on, hands them over in one
// order, and keeps the state they lead to as checkpoints. It carries bytes and knows nothing of what they
// mean. A server alone is a cluster of one member; Config.Cluster makes it one of several.
//
// # Use
//
// Open takes the data directory, verifies it and gives the last checkpoint to Config.Load on the way, Start
// begins. From then on the Handler hears of leadership and gets every committed entry, once and in order; it
// answers with Applied, writes a checkpoint when Checkpoints.Due reports true, and ends the process after
// Failed. Propose adds commands while this member leads.
//
// # The turn
//
// No goroutine owns raft: the holder of the turn (loop.turn, see package turn) takes everything out of the inbox, gives
// it to raft, hands out the work that raft asks for, and alone calls the Handler meanwhile. Mostly that is the loop's
// goroutine, which the inbox's bell wakes. Where nothing else is going on it is the goroutine that brought something,
// because waking another one costs more than the work: Propose's caller, the appender when a write is done, the stream
// of another member. They leave their mail first and then try for the turn, without waiting (loop.kick). No mail is
// left lying: a goroutine that gives the turn back looks into the inbox again and rings for what has come in between.
//
// The calls to the Handler therefore come one after the other, in the order of the log, but from any of these
// goroutines. Within a turn nothing waits, for a disk least of all. Flush comes behind the turn, so there may
// be two at a time.
//
// # Goroutines
//
//	Propose, ReadIndex, Applied
//	          |  inbox: one bell, everything waiting is taken at once
//	          v
//	       a turn -----------------> Handler
//	     |  ^        \
//	     |  | written  \ checkpoint done, cut
//	     v  |           v  ^
//	   appender        keeper <--- CheckpointWriter
//	     |               |
//	   wal/           checkpoint/
//
// In a cluster every other member has two lanes, each a bounded queue with a goroutine and a connection of
// its own: one for heartbeats, votes and answers, one for the log. What comes in goes to the inbox. A
// checkpoint for a member that lags is sent by a goroutine of its own, which keeps its files; a received one
// is collected in a file by the goroutine that receives it, and installed by the appender and the keeper
// together.
//
// A turn never waits for a disk. The appender takes all writes that came together while it waited for the
// last one and makes them one write and one fdatasync. The keeper writes checkpoints and merges their
// files, both in small pieces with pauses between them, and cuts the log.
//
// # Order of persistence
//
//  1. Entries, and with them in the same batch of the log term, vote and commit index if term or vote have
//     changed. Raft hears of it afterwards, and only then counts this member.
//  2. A checkpoint from another member is preceded by term and vote, and followed by entries.
//  3. Committed entries that are durable here go to the handler; replies to clients come after that.
//  4. Rows, in files, then the names of these, then the manifest that lists them and has the index they are as of.
//  5. Files of the log wholly behind a durable checkpoint are removed, TailEntriesKept entries excepted, and on
//     the leader what a member that lags needs, within LagEntriesKept and LagBytesKept.
//
// The commit index is written on its own only where it covers a membership entry that was not durable as
// committed yet: such an entry is applied, and other members learn that it is committed, after that write.
// For the rest a member alone commits its whole log again when it is elected, and others learn the commit
// index from their leader. A start begins with the highest of the checkpoint's index, the stored commit index,
// and the last but one membership entry of the log, which the last one proves to be committed.
//
// # Files
//
// One process at a time has the directory, locked by flock. Small files are lines of JSON with a line of a checksum.
//
//	identity.json  format, cluster id, member id, incarnation; written last when the directory is made
//	checkpoint/    see package checkpoint
//	  manifest: which files are the checkpoint, and the record of it: ids, index, term, membership, lineage
//	  <sequence>.rows
//	wal/
//	  <sequence>.log: see package wal
//	admission.json who may speak to this member, as learnt from others, and the incarnations of those who have spoken
//	               before the log had them: see DESIGN.md; missing if its log knows
//	condemned.txt  why nothing may be started on the directory any more; missing unless Dir.Condemn was called
//	restoring.txt  there while a backup is being restored, first to come and last to go: nothing starts
//
// # Recovery
//
// Before anything is opened for writing, examine reads everything with plain reads and changes nothing.
// The rows are handed over on the way, each once its checksum was right, and count once the whole was. The rule:
//
//   - What follows the last whole batch of the log is judged by package wal. A write that a crash cut short was never
//     acknowledged, and is dropped.
//   - Everything else that is broken, missing, too short or contradictory is corruption: Open returns a
//     CorruptionError with file and entry, and the directory is as before.
//
// Check does the same examination for an operator.
//
// Files that no manifest names, which a checkpoint that was never finished left, are removed.
//
// Another leftover of a crash is a log that does not belong to the checkpoint, if that came from another member: the
// crash came between the manifest that names its file and the emptying of the log, which is done then.
package raftstore
