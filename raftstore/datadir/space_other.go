//go:build !linux && !darwin

package datadir

import "errors"

// FreeBytes is not known on this system; a reserve is not kept there.
func FreeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
