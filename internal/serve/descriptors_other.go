//go:build !unix

package serve

// RaiseDescriptors returns 0: this system has no such limit.
func RaiseDescriptors() int { return 0 }
