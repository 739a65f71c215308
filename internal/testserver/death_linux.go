package testserver

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the system kill the process when the thread that starts it ends, as it does with the test binary.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
