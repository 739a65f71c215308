//go:build unix && !linux

package testserver

import "os/exec"

// StartCommand starts a command, which outlives a test binary that is killed.
func StartCommand(command *exec.Cmd) error { return command.Start() }
