package faults

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// Kind is the kind of a client's request.
type Kind string

// The kinds: messages of a Session stream, and calls.
const (
	Start    Kind = "start"
	Stop     Kind = "stop"
	Acquire  Kind = "acquire"
	Release  Kind = "release"
	Create   Kind = "create"
	Update   Kind = "update"
	Delete   Kind = "delete"
	Describe Kind = "describe"

	CreateNode   Kind = "create-node"
	AlterNode    Kind = "alter-node"
	DropNode     Kind = "drop-node"
	DescribeNode Kind = "describe-node"

	CreateResource   Kind = "create-resource"
	AlterResource    Kind = "alter-resource"
	DropResource     Kind = "drop-resource"
	DescribeResource Kind = "describe-resource"
	ListResources    Kind = "list-resources"
	AcquireResource  Kind = "acquire-resource"
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{Start, Stop, Acquire, Release, Create, Update, Delete, Describe, CreateNode, AlterNode,
		DropNode, DescribeNode, CreateResource, AlterResource, DropResource, DescribeResource, ListResources,
		AcquireResource}
}

// ofStream reports whether requests of the kind are messages of a Session stream; the others are calls.
func (k Kind) ofStream() bool { return !strings.Contains(string(k), "-") }

// check reports a kind that there is not.
func (k Kind) check() error {
	if !slices.Contains(Kinds(), k) {
		return fmt.Errorf("no requests of kind %q; there are %v", k, Kinds())
	}
	return nil
}

// Status is a status of YDB, such as Ydb.StatusIds_UNAVAILABLE.
type Status = Ydb.StatusIds_StatusCode

// Refusal is a way in which a request may fail, as the specification has it.
type Refusal struct {
	Status Status
	// Text is YDB's text for it.
	Text string
	// Ends reports that it is sent as a Failure, which ends the stream. Otherwise it is the result of the request, and
	// the stream goes on.
	Ends bool
}

// The texts that several kinds have.
const (
	linkFailure    = "Link failure"
	notAttached    = "Session not attached"
	notAttachedNow = "Session is not attached"
	noSession      = "Session does not exist"
	expired        = "Session has expired"
	semaphoreGone  = "Semaphore does not exist"
	nameTooLong    = "Semaphore name is too long"
	dataTooLarge   = "Semaphore data is too large"
	underOperation = "There's another alter in flight"
	noPath         = "Path does not exist"
	notAvailable   = "The scheme is not available"
	nodeLost       = "Connection to coordination node was lost."
	metering       = "Setting metering is allowed only for administrators"
	badResource    = "Bad resource path."
	noResource     = "Resource with path \"resource\" doesn't exist."
)

// results has what may be the result of each kind of request, besides what anything on a stream may meet.
var results = map[Kind][]Refusal{
	Acquire: {
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Write permission denied"},
		{Status: Ydb.StatusIds_NOT_FOUND, Text: semaphoreGone},
		{Status: Ydb.StatusIds_PRECONDITION_FAILED, Text: "Semaphore ephemeral mode mismatch"},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: "Cannot acquire more than allowed by the semaphore"},
		{Status: Ydb.StatusIds_ABORTED, Text: "Operation superseded by another request"},
	},
	Release: {
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Write permission denied"},
	},
	Create: {
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Create permission denied"},
		{Status: Ydb.StatusIds_ALREADY_EXISTS, Text: "Semaphore already exists"},
		{Status: Ydb.StatusIds_PRECONDITION_FAILED, Text: "Too many semaphores already exist"},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: nameTooLong},
	},
	Update: {
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Update permission denied"},
		{Status: Ydb.StatusIds_NOT_FOUND, Text: semaphoreGone},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: dataTooLarge},
		{Status: Ydb.StatusIds_PRECONDITION_FAILED, Text: "Coordination node has no space left"},
	},
	Delete: {
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Delete permission denied"},
		{Status: Ydb.StatusIds_NOT_FOUND, Text: semaphoreGone},
		{Status: Ydb.StatusIds_PRECONDITION_FAILED, Text: "Semaphore not empty"},
	},
	Describe: {
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Read permission denied"},
		{Status: Ydb.StatusIds_NOT_FOUND, Text: "Semaphore not found"},
		{Status: Ydb.StatusIds_PRECONDITION_FAILED, Text: "Semaphore description is too large to send"},
	},
}

// ofAnyRequest has what any request of a session may meet.
var ofAnyRequest = []Refusal{
	{Status: Ydb.StatusIds_UNAVAILABLE, Text: linkFailure, Ends: true},
	{Status: Ydb.StatusIds_SESSION_EXPIRED, Text: expired, Ends: true},
	{Status: Ydb.StatusIds_SESSION_EXPIRED, Text: noSession},
	{Status: Ydb.StatusIds_BAD_SESSION, Text: notAttachedNow, Ends: true},
	{Status: Ydb.StatusIds_BAD_SESSION, Text: notAttached},
	{Status: Ydb.StatusIds_TIMEOUT, Text: "Ping timeout", Ends: true},
}

var ofStarts = []Refusal{
	{Ydb.StatusIds_BAD_REQUEST, "Session timeout is out of range", true},
	{Ydb.StatusIds_NOT_FOUND, "Kesus not found", true},
	{Ydb.StatusIds_UNAUTHORIZED, "User has no access to the coordination node", true},
	{Ydb.StatusIds_SESSION_EXPIRED, noSession, true},
	{Ydb.StatusIds_BAD_SESSION, "Attach request is out of sequence", true},
	{Ydb.StatusIds_PRECONDITION_FAILED, "Too many sessions already exist", true},
	{Ydb.StatusIds_INTERNAL_ERROR, "Unknown", true},
	{Ydb.StatusIds_UNAVAILABLE, linkFailure, true},
}

var ofStops = []Refusal{
	{Ydb.StatusIds_SESSION_EXPIRED, noSession, true},
	{Ydb.StatusIds_BAD_SESSION, notAttachedNow, true},
	{Ydb.StatusIds_UNAVAILABLE, linkFailure, true},
}

var ofCalls = map[Kind][]Refusal{
	CreateNode: {
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: "Setting path is not allowed"},
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Access denied"},
		{Status: Ydb.StatusIds_SCHEME_ERROR, Text: "unexpected path type"},
		{Status: Ydb.StatusIds_GENERIC_ERROR, Text: "path is not a directory"},
		{Status: Ydb.StatusIds_PRECONDITION_FAILED, Text: "children count limit exceeded"},
		{Status: Ydb.StatusIds_OVERLOADED, Text: "path exists but creating right now"},
	},
	AlterNode: {
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: "Setting path is not allowed"},
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Access denied"},
		{Status: Ydb.StatusIds_SCHEME_ERROR, Text: noPath},
		{Status: Ydb.StatusIds_OVERLOADED, Text: underOperation},
	},
	DropNode: {
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: "wrong path format"},
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Access denied"},
		{Status: Ydb.StatusIds_SCHEME_ERROR, Text: noPath},
		{Status: Ydb.StatusIds_OVERLOADED, Text: underOperation},
	},
	DescribeNode: {
		{Status: Ydb.StatusIds_SCHEME_ERROR},
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: "Access denied"},
		{Status: Ydb.StatusIds_GENERIC_ERROR},
	},
	CreateResource: {
		{Status: Ydb.StatusIds_ALREADY_EXISTS, Text: "Resource already exists and has same settings."},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: "Resource already exists and has different settings."},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: badResource},
		{Status: Ydb.StatusIds_SCHEME_ERROR},
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: metering},
	},
	AlterResource: {
		{Status: Ydb.StatusIds_NOT_FOUND, Text: "No resource found."},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: "No MaxUnitsPerSecond parameter in root resource."},
		{Status: Ydb.StatusIds_SCHEME_ERROR},
		{Status: Ydb.StatusIds_UNAUTHORIZED, Text: metering},
	},
	DropResource: {
		{Status: Ydb.StatusIds_NOT_FOUND, Text: "Resource doesn't exist."},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: "Resource \"resource\" has children."},
		{Status: Ydb.StatusIds_SCHEME_ERROR},
	},
	DescribeResource: {
		{Status: Ydb.StatusIds_NOT_FOUND, Text: noResource},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: badResource},
		{Status: Ydb.StatusIds_SCHEME_ERROR},
	},
	ListResources: {
		{Status: Ydb.StatusIds_NOT_FOUND, Text: noResource},
		{Status: Ydb.StatusIds_BAD_REQUEST, Text: badResource},
		{Status: Ydb.StatusIds_SCHEME_ERROR},
	},
	AcquireResource: {
		{Status: Ydb.StatusIds_TIMEOUT},
		{Status: Ydb.StatusIds_CANCELLED},
		{Status: Ydb.StatusIds_BAD_REQUEST},
		{Status: Ydb.StatusIds_INTERNAL_ERROR},
		{Status: Ydb.StatusIds_UNAVAILABLE},
		{Status: Ydb.StatusIds_OVERLOADED},
	},
}

// ofResources has what any call about resources may meet that does not acquire one.
var ofResources = []Refusal{
	{Status: Ydb.StatusIds_UNAVAILABLE, Text: nodeLost},
	{Status: Ydb.StatusIds_TIMEOUT, Text: "Operation timeout."},
}

// ofAnyCall has what any call may meet.
var ofAnyCall = []Refusal{
	{Status: Ydb.StatusIds_UNAVAILABLE, Text: notAvailable},
	{Status: Ydb.StatusIds_TIMEOUT, Text: "Operation timeout."},
	{Status: Ydb.StatusIds_CANCELLED, Text: "Operation cancelled."},
}

// Refusals are the ways in which a request of the kind may fail.
func (k Kind) Refusals() []Refusal {
	switch {
	case k == Start:
		return slices.Clone(ofStarts)
	case k == Stop:
		return slices.Clone(ofStops)
	case k.ofStream():
		return append(slices.Clone(results[k]), ofAnyRequest...)
	case k == AcquireResource:
		return slices.Clone(ofCalls[k])
	case strings.Contains(string(k), "-resource"):
		return append(slices.Clone(ofCalls[k]), ofResources...)
	}
	return append(slices.Clone(ofCalls[k]), ofAnyCall...)
}

// refusal finds how a request of the kind fails with a status: as the specification has it with that text, or
// else with the first one of that status, and then the text is the caller's.
func (k Kind) refusal(status Status, text string) (Refusal, error) {
	var found *Refusal
	for _, r := range k.Refusals() {
		if r.Status == status && (found == nil || r.Text == text) {
			found = &r
		}
	}
	if found == nil {
		return Refusal{},
			fmt.Errorf("%s never fails with %s, but with %s; ask for it as impossible if that is meant", k,
				status, strings.Join(k.statuses(), ", "))
	}
	if text != "" {
		found.Text = text
	}
	return *found, nil
}

// statuses are the names of the statuses with which a request of the kind may fail, each once.
func (k Kind) statuses() (names []string) {
	for _, r := range k.Refusals() {
		if name := r.Status.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// statusesByKind returns the statuses with which requests of each kind may fail, by their names.
func statusesByKind() map[Kind][]string {
	found := make(map[Kind][]string)
	for _, kind := range Kinds() {
		found[kind] = kind.statuses()
	}
	return found
}

// impossible is a refusal that the specification does not have.
func (k Kind) impossible(status Status, text string) Refusal {
	return Refusal{Status: status, Text: text, Ends: k == Start || k == Stop}
}

// Troubled names the SDKs that do not recover from a refusal of a request of the kind, or overlook it.
func (k Kind) Troubled(r Refusal) string {
	switch {
	case k == AcquireResource && (r.Status == Ydb.StatusIds_UNAVAILABLE ||
		r.Status == Ydb.StatusIds_OVERLOADED):
		return "Go asks again until its caller's context is done"
	case !k.ofStream():
		return ""
	case k == Start:
		return troubledByStart(r.Status)
	case r.Ends:
		return "Rust and .NET do not attach again; Java gets over the first break of a session only"
	case k == Acquire:
		return "Rust: the session ends; Go: ErrAcquireTimeout, whatever the status"
	case k == Describe:
		return "Rust: the session ends; Go: an empty description and no error"
	}
	return "Rust: the session ends; Go: no error"
}

func troubledByStart(status Status) string {
	trouble := ".NET may wait for the start until its caller gives up; Go tries again without a pause until " +
		"the session's timeout is over, or, for a new session, the caller's context is done"
	switch status {
	case Ydb.StatusIds_SESSION_EXPIRED:
		trouble += "; Python attaches to the dead session for ever; C++ and JS give up the session"
	case Ydb.StatusIds_UNAUTHORIZED, Ydb.StatusIds_NOT_FOUND:
		trouble += "; C++ gives up the session"
	case Ydb.StatusIds_BAD_SESSION:
		trouble += "; JS gives up the session"
	}
	return trouble
}

// kindOf returns the kind of a stream's message, empty for a ping, a pong or a message that no client should send; and,
// for a numbered request, its number and the name of the semaphore.
func kindOf(m *Ydb_Coordination.SessionRequest) (kind Kind, reqID uint64, name string) {
	switch r := m.GetRequest().(type) {
	case *Ydb_Coordination.SessionRequest_SessionStart_:
		return Start, 0, ""
	case *Ydb_Coordination.SessionRequest_SessionStop_:
		return Stop, 0, ""
	case *Ydb_Coordination.SessionRequest_AcquireSemaphore_:
		return Acquire, r.AcquireSemaphore.GetReqId(), r.AcquireSemaphore.GetName()
	case *Ydb_Coordination.SessionRequest_ReleaseSemaphore_:
		return Release, r.ReleaseSemaphore.GetReqId(), r.ReleaseSemaphore.GetName()
	case *Ydb_Coordination.SessionRequest_CreateSemaphore_:
		return Create, r.CreateSemaphore.GetReqId(), r.CreateSemaphore.GetName()
	case *Ydb_Coordination.SessionRequest_UpdateSemaphore_:
		return Update, r.UpdateSemaphore.GetReqId(), r.UpdateSemaphore.GetName()
	case *Ydb_Coordination.SessionRequest_DeleteSemaphore_:
		return Delete, r.DeleteSemaphore.GetReqId(), r.DeleteSemaphore.GetName()
	case *Ydb_Coordination.SessionRequest_DescribeSemaphore_:
		return Describe, r.DescribeSemaphore.GetReqId(), r.DescribeSemaphore.GetName()
	}
	return "", 0, ""
}

// answered returns the request that a message of the server answers, or an empty kind.
func answered(m *Ydb_Coordination.SessionResponse) (kind Kind, reqID uint64) {
	switch r := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_SessionStarted_:
		return Start, 0
	case *Ydb_Coordination.SessionResponse_SessionStopped_:
		return Stop, 0
	case *Ydb_Coordination.SessionResponse_AcquireSemaphorePending_:
		return Acquire, r.AcquireSemaphorePending.GetReqId()
	case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
		return Acquire, r.AcquireSemaphoreResult.GetReqId()
	case *Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_:
		return Release, r.ReleaseSemaphoreResult.GetReqId()
	case *Ydb_Coordination.SessionResponse_CreateSemaphoreResult_:
		return Create, r.CreateSemaphoreResult.GetReqId()
	case *Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_:
		return Update, r.UpdateSemaphoreResult.GetReqId()
	case *Ydb_Coordination.SessionResponse_DeleteSemaphoreResult_:
		return Delete, r.DeleteSemaphoreResult.GetReqId()
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_:
		return Describe, r.DescribeSemaphoreResult.GetReqId()
	}
	return "", 0
}
