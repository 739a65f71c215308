package listen

import "syscall"

// socketsAreFiles reports whether this system reads a socket as it reads a file.
const socketsAreFiles = false

func readSocket(uintptr, []byte) (int, error) { return 0, syscall.EWINDOWS }
