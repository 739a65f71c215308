//go:build !linux

package raftstore

import "errors"

// freeBytes is not known on this system; a reserve is not kept there.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
