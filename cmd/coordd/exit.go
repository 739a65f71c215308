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
	// exitNotServing is for scripts that wait for a server, and tells them a mistake from a server that is away.
	exitNotServing exitCode = 6
	exitRemoved    exitCode = 7
	exitDiverged   exitCode = 8
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
	{exitConfig, "configuration: config file, environment, or a data directory that is in use or cannot be used"},
	{exitDiffers, "conformance: the server differs from the scripts"},
	{exitNotServing, "no server can be reached there; health: or it does not serve"},
	{exitRemoved, "the server was removed from its cluster: its data is of no use any more"},
	{exitDiverged, "the server's state is not that of the majority of its cluster: its data must not be used any more"},
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

// usageError is a mistake on the command line.
func usageError(format string, values ...any) error {
	return withCode(exitUsage, fmt.Errorf(format, values...))
}

// codeOf is the exit code of an error, exitFailure where nothing else was said.
func codeOf(err error) exitCode {
	var coded *codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	default:
		return exitFailure
	}
}
