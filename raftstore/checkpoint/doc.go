// Package checkpoint keeps the rows of one raft member's last checkpoint, in immutable files that only this package
// writes. Opening is verifying: Inspect reads every byte of what counts, and changes nothing.
//
// # Files
//
// The manifest lists the files of a checkpoint, oldest first. Each file has a number that never goes back,
// and is written once, from its beginning to its end:
//
//	magic (8), format (4)
//	each row: length of the key (4, not 0), length of the rest (4), key, kind (1),
//	    CRC32C over key and value (4), value
//	0 (4), length of a record (4), record
//	CRC32C of everything before (4)
//
// Prefixes that the file drops come first, in key order, then rows, in key order: one that is there, or one that is
// gone. All numbers are little-endian. The same stream, with rows that are there only, and a record, is a backup.
//
// The manifest is one line of JSON and one of its checksum. It has, for each file, how many rows and bytes there are,
// the sum of the rows' checksums and the checksum of the whole: so a file that is sound and another one is found, and
// each row that is missing.
//
// # Reading
//
// Readers merge all files. Of one key the row of the youngest file wins; a dropped prefix hides the rows of older
// files. So the changes of a checkpoint are one more file, a run, however many rows there are. When the runs exceed
// half of the oldest file, the base, all are merged into a new base at any pace; when there are many, they are merged
// with each other. A file is compared with the manifest once more while it is merged, so that no damage gets a new
// checksum. A reader keeps the files open that were the checkpoint then; they are removed after that.
//
// # The order of steps
//
//   - checkpoint: gather rows, sort them, write a run in pieces, each of which is synced; as often as there are rows.
//     Sync the directory. Write the manifest under another name, sync it, rename it, sync the directory. Then the
//     checkpoint counts, and not before.
//   - merge: the same with the merged file in the place of those that it was merged from; then remove these.
//   - replace, by rows from elsewhere: the same with one file in the place of all.
//   - start: read and verify; write the manifest once more; remove the files that it does not name.
//
// A crash leaves files that no manifest names, and one manifest: the old one or the new one. A start writes the
// manifest again because its name may be in the page cache only, where a sync that failed once leaves it for ever.
// The content of files and their names are durable before a manifest has them, so they need no such thing: after a
// failed sync the process ends, and the next start does not know the file.
//
// # What is found
//
// A flipped bit anywhere, a file that is shorter, longer, missing or another one's, a missing manifest. Not found is
// an older manifest together with all its files. A checksum of 32 bits misses one of 2^32 random changes; a row has
// two.
package checkpoint
