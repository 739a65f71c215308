//go:build !windows

package listen

import (
	"errors"
	"syscall"
)

// socketsAreFiles reports whether this system reads a socket as it reads a file.
const socketsAreFiles = true

func readSocket(file uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(file), b)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
