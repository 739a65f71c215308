package protocol

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
)

// Refused is a server's refusal with its text.
type Refused struct {
	Status Ydb.StatusIds_StatusCode
	Text   string // of the first issue, or ""
}

// innerWords are texts of YDB that name its parts, and plain ones. Those with a path in them are about the path that
// was asked for.
var innerWords = []struct{ text, plain string }{
	{"Kesus not found", "there is no such coordination node"},
	{"path is not a kesus", "it is not a coordination node"},
	{"path is not a directory", "it is a coordination node, not a directory"},
	{"unexpected path type", "it is a coordination node, not a directory"},
	{"Cannot resolve working dir", "the directory above it does not exist"},
	{"Table path not in database", "it is not below the server's database"},
	{"Path not found", "it does not exist"},
	{"Path does not exist", "it does not exist"},
}

// Error is the server's text, which says more than the status, in plain words.
func (r *Refused) Error() string {
	for _, known := range innerWords {
		if strings.Contains(r.Text, known.text) {
			return known.plain
		}
	}
	switch {
	case r.Text == "" && r.Status == Ydb.StatusIds_SCHEME_ERROR:
		return "there is no such coordination node"
	case r.Text == "":
		return r.Status.String()
	}
	return fmt.Sprintf("%s (%s)", r.Text, r.Status)
}

// Missing reports whether an error is the refusal of a request about something that does not exist.
func Missing(err error) bool {
	var refused *Refused
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case Ydb.StatusIds_NOT_FOUND:
		return true
	case Ydb.StatusIds_SCHEME_ERROR:
		return refused.Text == "" || refused.Text == "Path not found" || refused.Text == "Path does not exist"
	}
	return false
}

// StatusOf is the status of a refusal, unspecified for all other errors.
func StatusOf(err error) Ydb.StatusIds_StatusCode {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.Status
	}
	return Ydb.StatusIds_STATUS_CODE_UNSPECIFIED
}

// Answered returns the refusal that a status and its issues are, nil for SUCCESS. It has the text of the first issue,
// of its innermost cause.
func Answered(status Ydb.StatusIds_StatusCode, issues []*Ydb_Issue.IssueMessage) error {
	if status == Ydb.StatusIds_SUCCESS {
		return nil
	}
	refused := &Refused{Status: status}
	if len(issues) > 0 {
		refused.Text = deepest(issues[0])
	}
	return refused
}

// deepest is the text that says most: YDB wraps the cause of an error in others.
func deepest(issue *Ydb_Issue.IssueMessage) string {
	for _, inner := range issue.GetIssues() {
		if text := deepest(inner); text != "" {
			return text
		}
	}
	return strings.TrimSpace(issue.GetMessage())
}

// Errors of a session that say what happened to it. A session that is lost says why with one that wraps
// ErrLost.
var (
	// ErrLost is that the session, and all that it held, is no longer the caller's.
	ErrLost = errors.New("the session is lost")
	// ErrInterrupted is that the stream broke before an answer came: what was asked for may have been done or
	// not. A request that can be repeated without harm never ends with it.
	ErrInterrupted = errors.New("the connection was lost before the answer came: whether it was done is not known")
	// ErrBusy is that a request was not sent, since as many as a session may have wait for their answers.
	ErrBusy = errors.New("too many requests")
)
