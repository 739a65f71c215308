package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Refusals that one member gives another. They keep their meaning across the network.
var (
	// ErrRemoved reports that this member was removed from its cluster. Its id never comes back: the directory can only
	// be emptied, and the server added again as a new member.
	ErrRemoved = errors.New("this member was removed from the cluster")
	// ErrEmptied reports that the cluster knows this member with another data directory, so this one was emptied or
	// replaced. What it promised is lost: remove the member and add it again.
	ErrEmptied = errors.New("the cluster knows this member with an earlier data directory")
	// ErrOtherCluster is returned if the server at an address belongs to another cluster or is another member.
	ErrOtherCluster = errors.New("the server belongs to another cluster or is another member")
)

// refusal is an error of one kind with a text that names the difference.
type refusal struct {
	kind error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

// Refuse returns an error of a kind with a text of its own.
func Refuse(kind error, format string, args ...any) error {
	return &refusal{kind, fmt.Sprintf(format, args...)}
}

// refusals are the errors that keep their meaning across the network.
var refusals = map[codes.Code]error{
	codes.PermissionDenied:   ErrRemoved,
	codes.DataLoss:           ErrEmptied,
	codes.FailedPrecondition: ErrOtherCluster,
}

// FromStatus returns the refusal that came as a status; other errors as they are.
func FromStatus(err error) error {
	if kind, ok := refusals[status.Code(err)]; ok {
		return Refuse(kind, "%s", status.Convert(err).Message())
	}
	return err
}

// ToStatus is the inverse of FromStatus.
func ToStatus(err error) error {
	for code, refusal := range refusals {
		if errors.Is(err, refusal) {
			return status.Error(code, err.Error())
		}
	}
	return err
}

// Cause returns why something failed, without what changes from attempt to attempt.
func Cause(err error) string {
	text := status.Convert(err).Message()
	// gRPC's frame around why it has no connection
	if _, dialing, ok := strings.Cut(text, `desc = "transport: `); ok {
		text = strings.TrimSuffix(dialing, `"`)
	}
	words := strings.Fields(text)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return strings.Contains(w, "->") }),
		" ")
}
