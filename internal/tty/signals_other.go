//go:build !unix

package tty

import (
	"os"
	"syscall"
)

// Systems without these signals do not send them.
const (
	stopSignal     = syscall.Signal(-1)
	continueSignal = syscall.Signal(-2)
)

var watched = []os.Signal{stopSignal, continueSignal}

func stop() (stopped bool) { return false }
