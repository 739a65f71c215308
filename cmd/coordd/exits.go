package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// exitCodes explains every exit code, in order.
var exitCodes = []struct {
	code exit.Code
	text string
}{
	{exit.OK, "done, or stopped by a signal"},
	{exit.Failure, "any other failure, such as a port in use"},
	{exit.Usage, "wrong command, flag or argument"},
	{exit.Storage, "storage failure, such as a failed write"},
	{exit.Config,
		"configuration: config file, environment, or a data directory that is in use or cannot be used"},
	{exit.NotServing, "no server can be reached; health: or it does not serve"},
	{exit.Removed, "the server was removed from its cluster: its data is no longer usable"},
	{exit.Diverged,
		"the server's state differs from that of its cluster's majority: its data must not be used any more"},
	{exit.NeedsOurs, "the command needs a coordd server: this is another kind of server, or an older version"},
	{exit.NotFound, "what the command names does not exist: a path, a semaphore, a session, a resource"},
	{exit.Damaged, "damaged files, or a damaged backup"},
	{exit.Lost,
		"lock, elect: the lock was lost, and the command was stopped; semaphore release: it was lost before"},
	{exit.Conflict, "lock, elect, semaphore take-over, ratelimiter acquire: not acquired in time (lock, elect, " +
		"take-over: --conflict-exit-code changes it); config set: its version is not that of --if-version"},
	{exit.NotRun, "lock, elect, config watch: coordd itself failed, and no command runs"},
	{exit.Cannot, "lock, elect, config watch: the command cannot be run"},
	{exit.NoSuch, "lock, elect, config watch: the command was not found"},
	{exit.Signal, "lock, elect: plus the number of the signal that ended the command"},
}

// withNotFound gives refusals about what does not exist a code of their own, unless they have another one.
func withNotFound(err error) error {
	if protocol.Missing(err) && !errors.Is(err, protocol.ErrLost) && exit.Of(err) == exit.Failure {
		return exit.With(exit.NotFound, err)
	}
	return err
}

// exitCodeHelp is the list of exit codes for `coordd help`.
func exitCodeHelp() string {
	var text strings.Builder
	for _, entry := range exitCodes {
		fmt.Fprintf(&text, "  %d  %s\n", entry.code, entry.text)
	}
	return text.String()
}

// commandEnded is the end of a command that was run for the user, who has seen what there is to see.
type commandEnded struct{ code exit.Code }

func (e *commandEnded) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", e.code)
}

// ExitCode passes the command's code on.
func (e *commandEnded) ExitCode() exit.Code { return e.code }

// runs marks a cobra command that passes on the exit code of another one, always or where one is given: its
// own failures are exit.NotRun then.
const (
	runs     = "runs"
	runsOne  = "one"
	runsSome = "one, or none"
)

// ownFailure keeps what goes wrong with a command that runs another one apart from the other one's exit
// codes.
func ownFailure(err error) error {
	var ended *commandEnded
	var held *heldByOthers
	if code := exit.Of(err); err == nil || errors.As(err, &ended) || errors.As(err, &held) ||
		code >= exit.Lost {
		return err
	}
	return exit.With(exit.NotRun, err)
}

// heldByOthers reports that a lock was not acquired in time. The user chooses its exit code.
type heldByOthers struct{ by string }

func (h *heldByOthers) Error() string { return "is held by " + h.by }
