// Package codec turns commands and rows into the bytes that are stored and sent, and back.
//
// # Format
//
// A stored value is one byte with the version with which its form came and then a message of logpb/log.proto:
// a Command, alone in its entry of the log, has version 1; an Entry of several has version 2; the values of
// rows have version 1 unless they say something that needs a later one. An older program reads as much of
// that as was there when it was made, and refuses the rest by its version. The encoding is canonical: fields
// ascend, a field that is zero is left out, numbers have their shortest form. The decoders accept nothing
// else, so that every value has one encoding and every input is either refused or encodes to itself again.
// That makes a field or a command of a later version an error instead of something that is quietly lost, and makes
// digests of the log possible.
//
// The key of a row is 17 bytes: the id of the coordination node (0 for rows that belong to none), the kind of
// the row, and its id within node and kind, numbers big-endian. A user or a signing key whose place in its
// entry is not 0 has that in four bytes more. In the order of keys the machine's row is the first, the path
// entries follow by id, then come the nodes one after another, each in the order of RowKind: what a row
// refers to is before it.
//
// # Why not the generated code
//
// The messages are protobuf, and logpb is generated from them, but reading and writing is done here: a
// command is encoded and decoded once for each request, and the generated code takes more than twice as long
// (BenchmarkAcquire), accepts many encodings of one value, and would need every message copied into a second
// set of structs. Each message is listed once, field by field, in a function that serves measuring, writing
// and reading alike. Tests compare all of it with the generated code, in both directions.
//
// Texts are not checked for UTF-8. They were when they came from a client; refusing one here would mean a log
// that no server can read.
package codec
