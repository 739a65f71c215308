// Package outcome has the result of a request: a status of the YDB protocol, and the issues that explain it. It depends
// neither on the subjects of requests nor on the messages that carry an answer to a client.
package outcome

import (
	"fmt"
	"strings"
)

// Status is a status number of the YDB protocol (Ydb.StatusIds.StatusCode). The zero value is no status at
// all, so a forgotten one cannot pass for success.
type Status uint32

// The statuses that this server can answer.
const (
	Success            Status = 400000
	BadRequest         Status = 400010
	Unauthorized       Status = 400020
	InternalError      Status = 400030
	Aborted            Status = 400040
	Unavailable        Status = 400050
	Overloaded         Status = 400060
	SchemeError        Status = 400070
	GenericError       Status = 400080
	Timeout            Status = 400090
	BadSession         Status = 400100
	PreconditionFailed Status = 400120
	AlreadyExists      Status = 400130
	NotFound           Status = 400140
	SessionExpired     Status = 400150
	Cancelled          Status = 400160
	Unsupported        Status = 400180
)

// String returns the protocol's name of the status, such as BAD_REQUEST.
func (s Status) String() string {
	switch s {
	case Success:
		return "SUCCESS"
	case BadRequest:
		return "BAD_REQUEST"
	case Unauthorized:
		return "UNAUTHORIZED"
	case InternalError:
		return "INTERNAL_ERROR"
	case Aborted:
		return "ABORTED"
	case Unavailable:
		return "UNAVAILABLE"
	case Overloaded:
		return "OVERLOADED"
	case SchemeError:
		return "SCHEME_ERROR"
	case GenericError:
		return "GENERIC_ERROR"
	case Timeout:
		return "TIMEOUT"
	case BadSession:
		return "BAD_SESSION"
	case PreconditionFailed:
		return "PRECONDITION_FAILED"
	case AlreadyExists:
		return "ALREADY_EXISTS"
	case NotFound:
		return "NOT_FOUND"
	case SessionExpired:
		return "SESSION_EXPIRED"
	case Cancelled:
		return "CANCELLED"
	case Unsupported:
		return "UNSUPPORTED"
	}
	return fmt.Sprintf("STATUS_%d", uint32(s))
}

// SeverityError is the severity of the issues of scheme operations. (Coordination streams use 0,
// coordination.md §0.4.)
const SeverityError uint32 = 1

// The issue codes that clients distinguish.
const (
	// CodeAccessDenied is the issue code of a refusal for want of rights.
	CodeAccessDenied uint32 = 200000
	// CodePathNotExist is the issue code of "Path does not exist"; SDK tests compare it (surface.md §3.4).
	CodePathNotExist uint32 = 200200
)

// Issue is one Ydb.Issue.IssueMessage without position and without nested issues. Message is valid UTF-8.
type Issue struct {
	Code     uint32
	Severity uint32
	Message  string
}

// Outcome is the answer to a request: a status and the issues that explain it. SUCCESS may carry an issue
// too. The zero Outcome is neither success nor a refusal.
type Outcome struct {
	Status Status
	Issues []Issue
}

// OK reports whether the request succeeded.
func (o Outcome) OK() bool { return o.Status == Success }

// String returns status and messages on one line, for logs and test failures.
func (o Outcome) String() string {
	var b strings.Builder
	b.WriteString(o.Status.String())
	for _, issue := range o.Issues {
		fmt.Fprintf(&b, " [%d/%d] %s", issue.Code, issue.Severity, issue.Message)
	}
	return b.String()
}

// Done is success without issues.
func Done() Outcome { return Outcome{Status: Success} }

// Refuse is an outcome with the given status and issues.
func Refuse(status Status, issues ...Issue) Outcome {
	return Outcome{Status: status, Issues: issues}
}

// Denied is a refusal for lack of rights; text names what was not allowed. Invalid UTF-8 in it is replaced.
func Denied(text string) Outcome {
	return Refuse(Unauthorized, Issue{Code: CodeAccessDenied, Severity: SeverityError,
		Message: strings.ToValidUTF8(text, "\uFFFD")})
}

// Because is a refusal with one issue, which says why. What is not UTF-8 in the text is replaced.
func Because(status Status, text string) Outcome {
	return Refuse(status, Issue{Severity: SeverityError, Message: strings.ToValidUTF8(text, "\uFFFD")})
}
