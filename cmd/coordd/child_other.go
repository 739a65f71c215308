//go:build !linux

package main

import "syscall"

// endWithParent can do nothing here: a command outlives this process if that is killed.
func endWithParent(*syscall.SysProcAttr) {}
