//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

const userSignal = syscall.SIGUSR1

// gone reports whether no process has a number.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// tryLock locks a file, unless another process has locked it.
func tryLock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
