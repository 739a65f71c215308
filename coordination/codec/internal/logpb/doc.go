// Package logpb is the schema of coordd's stored formats, generated from log.proto. The program reads and
// writes them with package codec, which is faster and stricter, and whose tests compare the two. Tools that
// look into a data directory may use this one.
package logpb
