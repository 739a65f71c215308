//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/internal/cmdline"
)

var systemSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}

func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func sendToGroup(p *os.Process, sig syscall.Signal) { _ = syscall.Kill(-p.Pid, sig) }

// foreground lets a command have the terminal, if this program has it. The result takes it back.
func foreground(env *cmdline.Env, attributes *syscall.SysProcAttr) (back func()) {
	file, ok := env.Stdin.(*os.File)
	if !ok {
		return func() {}
	}
	terminal := int(file.Fd())
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return func() {}
	}
	attributes.Foreground, attributes.Ctty = true, terminal
	return func() {
		signal.Ignore(syscall.SIGTTOU) // which whoever is not in the foreground gets for what follows
		defer signal.Reset(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(terminal, unix.TIOCSPGRP, group)
	}
}
