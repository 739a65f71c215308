// Package wal is the log of one raft member: entries and hard states, in files that only this package writes. Opening
// is verifying: Open either returns everything that was ever acknowledged, or a *DamageError, and then has changed
// nothing.
//
// # Files
//
// A file is named by a sequence number that never goes back. It begins with one block of 4 KiB (header), which is
// synced together with the file's name before anything else of the file is used. Batches follow:
//
//	|<------ 4 KiB ------>|<-- 64 bytes -->|
//	| header              | batch header   | records, padded to 64 | batch header | ... | zeros |
//
// The header names the member, 128 random bits of salt, the place at which the file before ends (link), the entry in
// front of this file's first one, and term, vote and commit as of that place. So no older file is needed for any of
// it. A reset header says instead that everything before is void.
//
// One Append is one batch, one write and one sync. The batch header has a checksum of its own, over the salt and the
// offset as well, so no bytes of another file, place or client are taken for it. Everything behind it is XORed with a
// pad of 512 bytes that is derived from the salt. So each sector of a batch is different from zeros as written,
// whatever clients send, and no single flipped bit makes it zeros. Each record has a checksum that Read verifies.
//
// # Only the process that has made a file writes it
//
// A write that was cut short, one whose sync failed, and one that nothing but the page cache has, look alike after a
// restart: the last batch is in doubt, whole or not. Each one before it is durable, because a batch is written only
// after the sync of the one before has succeeded. So Open begins a new file, a bridge, whose header declares the file
// before to end in front of the batch in doubt. What lies behind that place is void for ever, whatever it looks like.
// The bridge repeats the batch if it was whole, and syncs it, before anything of it counts. Nothing is wiped and
// nothing is written again in its place.
//
// The last record of a file names the next one, and is synced before the first batch of that is acknowledged. So a
// file that is missing is missed, the last one too. That is why a bridge takes nothing else: the file that entries are
// appended to is always named by the one before, also after a start. Creating a log and emptying it are bridges as
// well, with a reset header.
//
// # The order of steps
//
//   - begin: create, write the header, allocate, sync, sync the directory.
//   - change of files: begin the next; write and sync the record that names it; append to it.
//   - start: begin a bridge, write and sync the repeated batch; truncate the file before at its declared end, and
//     remove files that are in no chain, the youngest first; change files.
//   - reset: begin a bridge with a reset header, write and sync a hard state; remove all older files; change files.
//   - cut: remove the oldest files. The directory is synced after each removal, so what a crash brings back is the
//     youngest.
//
// # What is found
//
// The youngest file with an intact batch is the head. Its header leads to the file before, and so on, to a reset or to
// the oldest file: the chain. Every batch of it is verified up to the end that the next file declares. Behind the last
// batch of the head, and in younger files, there may be
//
//   - nothing: zeros up to the end of the file;
//   - a torn write: the first sector of the batch reads as zeros, or everything behind its header, or its header is
//     intact and another sector or the last word reads as zeros. Files are zeros ahead, and what did not arrive is;
//   - damage: everything else, and anything in front of an intact batch header. Then Open refuses. So one flipped bit
//     of the last acknowledged batch is found. A drive that tears a write within a sector makes a sound log look
//     damaged; that is the safe side, and a member of a cluster can join again.
//
// Besides, Open refuses: a file that another one names and that is missing, a gap in the sequence, a log that begins
// above the checkpoint, no log where there must be one. Not found are a batch of which every sector reads as zeros,
// and all files after some point missing at once. A checksum of 32 bits misses one of 2^32 random changes.
//
// # Other systems
//
// Linux syncs by fdatasync and allocates by fallocate. Elsewhere it is File.Sync, which on macOS is F_FULLFSYNC, and a
// file's length is set only. Windows cannot sync directories: names are as durable there as its file system makes
// them.
package wal
