// Package exit has the exit codes of coordd's programs, and errors that carry one from where something fails to where
// the process ends.
package exit

import (
	"errors"
	"fmt"
)

// Code is the status that a process ends with. The numbers are part of the
// interface: docs/commands.md and `coordd help` list them.
type Code int

// The exit codes of all commands.
const (
	OK      Code = 0
	Failure Code = 1 // where no other code is given
	Usage   Code = 2
	Storage Code = 3
	Config  Code = 4
	Differs Code = 5
	// NotServing distinguishes, for a script that waits for a server, a server that is not up yet from a mistake.
	NotServing Code = 6
	Removed    Code = 7
	Diverged   Code = 8
	NeedsOurs  Code = 9
	NotFound   Code = 10
	// Damaged lets a service manager leave a server alone whose files no restart mends.
	Damaged Code = 11
)

// The exit codes of commands that run another one and pass its code on. Like those of timeout(1) and the
// shell's they are above what programs use; 128 and the number of the signal is the code of a command that a
// signal has ended.
const (
	Lost     Code = 123
	Conflict Code = 124
	NotRun   Code = 125
	Cannot   Code = 126
	NoSuch   Code = 127
	Signal   Code = 128
)

// codedError is an error that decides the exit code.
type codedError struct {
	code Code
	err  error
}

func (e *codedError) Error() string  { return e.err.Error() }
func (e *codedError) Unwrap() error  { return e.err }
func (e *codedError) ExitCode() Code { return e.code }

// With gives an error its exit code. An error inside that already has one
// loses it: Of takes the outermost code.
func With(code Code, err error) error {
	return &codedError{code: code, err: err}
}

// Usagef returns the error for a mistake on the command line.
func Usagef(format string, values ...any) error {
	return With(Usage, fmt.Errorf(format, values...))
}

// IsUsage reports whether an error wraps a mistake on the command line, whatever its exit code.
func IsUsage(err error) bool {
	var coded *codedError
	for ; errors.As(err, &coded); err = coded.err {
		if coded.code == Usage {
			return true
		}
	}
	return false
}

// Of returns the exit code of an error: that of the outermost error with a method ExitCode, Failure without one.
func Of(err error) Code {
	var coded interface{ ExitCode() Code }
	switch {
	case err == nil:
		return OK
	case errors.As(err, &coded):
		return coded.ExitCode()
	default:
		return Failure
	}
}
