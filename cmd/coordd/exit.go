package main

import (
	"errors"
	"fmt"
	"strings"
)

// exitCode is the status that the process ends with. The numbers are part of the
// interface: README.md and `coordd help` list them.
type exitCode int

const (
	exitOK      exitCode = 0
	exitFailure exitCode = 1
	exitUsage   exitCode = 2
	exitStorage exitCode = 3
	exitConfig  exitCode = 4
	exitDiffers exitCode = 5
	// exitNotServing is for scripts that wait for a server, and tells them a mistake from a server that is
	// away.
	exitNotServing exitCode = 6
	exitRemoved    exitCode = 7
	exitDiverged   exitCode = 8
	exitNeedsOurs  exitCode = 9
)

// The exit codes of commands that run another one and pass its code on. Like those of timeout(1) and the
// shell's they are above what programs use; 128 and the number of the signal is the code of a command that a
// signal has ended.
const (
	exitLost     exitCode = 123
	exitConflict exitCode = 124
	exitNotRun   exitCode = 125
	exitCannot   exitCode = 126
	exitNoSuch   exitCode = 127
	exitSignal   exitCode = 128
)

// exitCodes explains every exit code, in order.
var exitCodes = []struct {
	code exitCode
	text string
}{
	{exitOK, "done, or stopped by a signal"},
	{exitFailure, "any other failure, such as a port in use"},
	{exitUsage, "wrong command, flag or argument"},
	{exitStorage, "storage failure: a failed write, or damaged files"},
	{exitConfig,
		"configuration: config file, environment, or a data directory that is in use or cannot be used"},
	{exitDiffers, "conformance: the server differs from the scripts"},
	{exitNotServing, "no server can be reached there; health: or it does not serve"},
	{exitRemoved, "the server was removed from its cluster: its data is of no use any more"},
	{exitDiverged,
		"the server's state is not that of the majority of its cluster: its data must not be used any more"},
	{exitNeedsOurs, "the command needs a coordd server, and this is another one, or an older one"},
	{exitLost,
		"lock, elect: what was held is lost, and the command was ended; semaphore release: it was lost before"},
	{exitConflict, "lock, elect, semaphore take-over, ratelimiter acquire: not acquired in time (lock, elect, " +
		"take-over: --conflict-exit-code changes it)"},
	{exitNotRun, "lock, elect, config watch: coordd itself has failed, and no command runs"},
	{exitCannot, "lock, elect, config watch: the command cannot be run"},
	{exitNoSuch, "lock, elect, config watch: there is no such command"},
	{exitSignal, "lock, elect: and a number more, which is that of the signal that has ended the command"},
}

// exitCodeHelp is the list of exit codes for `coordd help`.
func exitCodeHelp() string {
	var text strings.Builder
	for _, entry := range exitCodes {
		fmt.Fprintf(&text, "  %d  %s\n", entry.code, entry.text)
	}
	return text.String()
}

// codedError is an error that decides the exit code.
type codedError struct {
	code exitCode
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// withCode gives an error its exit code. An error inside that already has one
// loses it: the outermost code counts.
func withCode(code exitCode, err error) error {
	return &codedError{code: code, err: err}
}

// commandEnded is the end of a command that was run for the user, who has seen what there is to see.
type commandEnded struct{ code exitCode }

func (e *commandEnded) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", e.code)
}

// runs marks a cobra command that passes on the exit code of another one, always or where one is given: its
// own failures are exitNotRun then.
const (
	runs     = "runs"
	runsOne  = "one"
	runsSome = "one, or none"
)

// ownFailure keeps what goes wrong with a command that runs another one apart from the other one's exit
// codes.
func ownFailure(err error) error {
	var ended *commandEnded
	if code := codeOf(err); err == nil || errors.As(err, &ended) || errors.Is(err, errHeld) ||
		code >= exitLost {
		return err
	}
	return &codedError{code: exitNotRun, err: err}
}

// usageError is a mistake on the command line.
func usageError(format string, values ...any) error {
	return withCode(exitUsage, fmt.Errorf(format, values...))
}

// isUsage reports whether a mistake on the command line is behind an error, whatever its exit code.
func isUsage(err error) bool {
	var coded *codedError
	for ; errors.As(err, &coded); err = coded.err {
		if coded.code == exitUsage {
			return true
		}
	}
	return false
}

// codeOf is the exit code of an error, exitFailure where nothing else was said.
func codeOf(err error) exitCode {
	var coded *codedError
	var ended *commandEnded
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ended):
		return ended.code
	case errors.As(err, &coded):
		return coded.code
	default:
		return exitFailure
	}
}
