//go:build !linux

package files

// Allocate implements File.
func (f diskFile) Allocate(size int64) error { return f.Truncate(size) }
