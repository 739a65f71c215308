//go:build unix

package tty

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	stopSignal     = syscall.SIGTSTP
	continueSignal = syscall.SIGCONT
)

var watched = []os.Signal{syscall.SIGWINCH, stopSignal, continueSignal}

// stop stops the program until a shell resumes it, unless it runs without a shell that could: then it would stand for
// ever. A shell with job control puts what it runs into process groups other than its own. The stop signal itself does
// nothing any more in a Go program that has caught it.
func stop() (stopped bool) {
	if session, err := unix.Getsid(0); err == nil && session != syscall.Getpgrp() {
		return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) == nil
	}
	return false
}
