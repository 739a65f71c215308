//go:build !linux

package raftstore

import "os"

// dataSync makes written data durable.
func dataSync(f *os.File) error { return f.Sync() }

// allocate gives a new file its final size.
func allocate(f *os.File, size int64) error { return f.Truncate(size) }
