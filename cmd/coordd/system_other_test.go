//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"
)

const userSignal = syscall.Signal(-1)

// gone reports whether no process has a number.
func gone(pid int) bool {
	_, err := os.FindProcess(pid)
	return err != nil
}

func tryLock(*os.File) error { return errors.ErrUnsupported }
