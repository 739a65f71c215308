//go:build !unix

package serve

import "io/fs"

// RaiseDescriptors returns 0: this system has no such limit.
func RaiseDescriptors() int { return 0 }

// lent returns false: this system has no such owners.
func lent(fs.FileInfo) bool { return false }
