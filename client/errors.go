package client

import (
	"errors"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/internal/protocol"
)

// Refusal is a server's refusal of a request. errors.Is compares it by status with the values below, and errors.As
// extracts it from what a call returns:
//
//	var refusal *client.Refusal
//	if errors.As(err, &refusal) && refusal.Status == Ydb.StatusIds_OVERLOADED { … }
type Refusal struct {
	Status Ydb.StatusIds_StatusCode
	Text   string // of the innermost issue, as the server has sent it; "" if it has sent no issue
	cause  error
}

// The refusals that programs distinguish. A refusal of another status is a *Refusal as well.
var (
	// ErrNotFound is the refusal of a request for a node, semaphore or session that does not exist.
	ErrNotFound error = &Refusal{Status: Ydb.StatusIds_NOT_FOUND}
	// ErrAlreadyExists is the refusal to make something for the second time.
	ErrAlreadyExists error = &Refusal{Status: Ydb.StatusIds_ALREADY_EXISTS}
	// ErrBadRequest is the refusal of a request beyond the limits of the protocol.
	ErrBadRequest error = &Refusal{Status: Ydb.StatusIds_BAD_REQUEST}
	// ErrPrecondition is the refusal of a request that does not fit the state, such as an ephemeral acquire of a
	// semaphore that was created.
	ErrPrecondition error = &Refusal{Status: Ydb.StatusIds_PRECONDITION_FAILED}
	// ErrUnauthorized is the refusal of a caller without the permission.
	ErrUnauthorized error = &Refusal{Status: Ydb.StatusIds_UNAUTHORIZED}
	// ErrOverloaded is the refusal of a server that has reached one of its limits.
	ErrOverloaded error = &Refusal{Status: Ydb.StatusIds_OVERLOADED}
	// ErrUnavailable is the refusal of a server that cannot serve at the moment, such as without a leader.
	ErrUnavailable error = &Refusal{Status: Ydb.StatusIds_UNAVAILABLE}
	// ErrSessionExpired is the loss of a session that the server has ended.
	ErrSessionExpired error = &Refusal{Status: Ydb.StatusIds_SESSION_EXPIRED}
)

// Errors that are no refusals.
var (
	// ErrTaken is returned where a lease was not granted in the time of the option Wait.
	ErrTaken = errors.New("not granted in time: others hold it")
	// ErrHeld is returned where the session holds the semaphore or waits for it already: it can do so once.
	ErrHeld = errors.New("the session holds it or waits for it already")
	// ErrReleased is the end of a lease that was released.
	ErrReleased = errors.New("it was released")
	// ErrClosed is the end of a session that was closed, and of its leases.
	ErrClosed = errors.New("the session was closed")
	// ErrLost is wrapped by the error of a session that ended otherwise.
	ErrLost = protocol.ErrLost
	// ErrUnanswered is the loss of a session that no server has answered for as long as its timeout.
	ErrUnanswered = errors.New("no server has answered within the session's timeout")
	// ErrTakenAway is the loss of a lease whose session goes on: its semaphore was deleted by force.
	ErrTakenAway = protocol.ErrTakenAway
	// ErrInterrupted is returned where the stream broke before the answer to a request that may not be repeated: it may
	// have been carried out or not.
	ErrInterrupted = protocol.ErrInterrupted
	// ErrBusy is returned where a session has as many requests as it may have.
	ErrBusy = protocol.ErrBusy
)

// Error returns the text of the refusal, in plain words where YDB's name its inner parts.
func (r *Refusal) Error() string {
	if r.cause != nil {
		return r.cause.Error()
	}
	return (&protocol.Refused{Status: r.Status, Text: r.Text}).Error()
}

// Unwrap returns the error that the refusal is a part of, such as the loss of a session.
func (r *Refusal) Unwrap() error { return r.cause }

// Is reports whether target is a refusal with the same status, and with the same text if it has one.
func (r *Refusal) Is(target error) bool {
	wanted, ok := target.(*Refusal)
	return ok && wanted.Status == r.Status && (wanted.Text == "" || wanted.Text == r.Text)
}

// exported returns an error of the protocol as this package documents it.
func exported(err error) error {
	var refused *protocol.Refused
	if errors.As(err, &refused) {
		return &Refusal{Status: refused.Status, Text: refused.Text, cause: err}
	}
	return err
}
