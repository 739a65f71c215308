//go:build !unix

package main

import (
	"os"
	"syscall"

	"github.com/coordd/coordd/internal/cmdline"
)

// This system has neither process groups nor signals: a command is killed alone, without being asked first.

var systemSignals []os.Signal

func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func sendToGroup(p *os.Process, _ syscall.Signal) { _ = p.Kill() }

func foreground(*cmdline.Env, *syscall.SysProcAttr) (back func()) { return func() {} }
