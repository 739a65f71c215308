//go:build !linux

package wal

// Allocate implements File.
func (f diskFile) Allocate(size int64) error { return f.Truncate(size) }
