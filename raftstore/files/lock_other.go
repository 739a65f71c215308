//go:build !unix

package files

import (
	"errors"
	"fmt"
	"io"
)

// Lock fails: on this system a store keeps everything in memory.
func (Disk) Lock(path string, _ bool) (io.Closer, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}
