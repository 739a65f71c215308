//go:build !unix

package datadir

import (
	"errors"
	"os"
)

// flock fails: on this system a store keeps everything in memory.
func flock(f *os.File, _ bool) error {
	return wrapStep("lock", f.Name(), errors.ErrUnsupported)
}
