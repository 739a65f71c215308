package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type sessionReply = Ydb_Coordination.SessionResponse

// Answered returns the verb of the request that a reply answers, and its number; ok is false if it answers none.
func Answered(m *sessionReply) (a arm, reqID uint64, ok bool) {
	verb, of, number := Numbered(m)
	if number == nil {
		return "", 0, false
	}
	return arm(verb), of.Get(number).Uint(), true
}

// Numbered returns the verb of the request that a message of a stream is or answers, and the field with its number in
// the part that has it, nil if it is without a number.
func Numbered(m proto.Message) (verb string, of protoreflect.Message, number protoreflect.FieldDescriptor) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		of = v.Message()
		number = of.Descriptor().Fields().ByName("req_id")
		verb, _, _ = strings.Cut(string(f.Name()), "_")
		return false
	})
	return verb, of, number
}

// showReply shows a reply, but for its request. names shows ids of the stream's node.
func showReply(m *sessionReply, names nodeNames) string {
	switch r := m.GetResponse().(type) {
	case *Ydb_Coordination.SessionResponse_Ping:
		return "ping" // its number is random
	case *Ydb_Coordination.SessionResponse_Pong:
		return "pong " + ShowNumber(r.Pong.GetOpaque())
	case *Ydb_Coordination.SessionResponse_Failure_:
		return "failure " + showVerdict(r.Failure.GetStatus(), r.Failure.GetIssues(), 0)
	case *Ydb_Coordination.SessionResponse_SessionStarted_:
		text := "started session=" + names.session(r.SessionStarted.GetSessionId())
		if millis := r.SessionStarted.GetTimeoutMillis(); millis != 0 {
			text += " timeout=" + ShowMillis(millis)
		}
		return text
	case *Ydb_Coordination.SessionResponse_SessionStopped_:
		return "stopped session=" + names.session(r.SessionStopped.GetSessionId())
	case *Ydb_Coordination.SessionResponse_AcquireSemaphorePending_:
		return "pending"
	case *Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_:
		a := r.AcquireSemaphoreResult
		return showResult(armAcquire, a.GetStatus(), a.GetIssues(), "acquired", a.GetAcquired())
	case *Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_:
		a := r.ReleaseSemaphoreResult
		return showResult(armRelease, a.GetStatus(), a.GetIssues(), "released", a.GetReleased())
	case *Ydb_Coordination.SessionResponse_CreateSemaphoreResult_:
		return showPlainResult(armCreate, r.CreateSemaphoreResult.GetStatus(),
			r.CreateSemaphoreResult.GetIssues())
	case *Ydb_Coordination.SessionResponse_UpdateSemaphoreResult_:
		return showPlainResult(armUpdate, r.UpdateSemaphoreResult.GetStatus(),
			r.UpdateSemaphoreResult.GetIssues())
	case *Ydb_Coordination.SessionResponse_DeleteSemaphoreResult_:
		return showPlainResult(armDelete, r.DeleteSemaphoreResult.GetStatus(),
			r.DeleteSemaphoreResult.GetIssues())
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_:
		return showDescribed(r.DescribeSemaphoreResult, names)
	case *Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_:
		c := r.DescribeSemaphoreChanged
		return fmt.Sprintf("changed data=%t owners=%t", c.GetDataChanged(), c.GetOwnersChanged())
	case nil:
		return "an empty message"
	}
	return fmt.Sprintf("%T", m.GetResponse())
}

// showVerdict shows a status that is not success. Issues show what differs from the ordinary: one issue, no
// code, nothing nested, and the severity given.
func showVerdict(code Ydb.StatusIds_StatusCode, issues []*Ydb_Issue.IssueMessage, severity uint32) string {
	var b strings.Builder
	b.WriteString(code.String())
	for _, issue := range issues {
		if c := issue.GetIssueCode(); c != 0 {
			fmt.Fprintf(&b, " [%d]", c)
		}
		fmt.Fprintf(&b, " %q", issue.GetMessage())
		if s := issue.GetSeverity(); s != severity {
			fmt.Fprintf(&b, " severity=%d", s)
		}
		if n := len(issue.GetIssues()); n > 0 {
			fmt.Fprintf(&b, " nested=%d", n)
		}
		if issue.GetPosition() != nil || issue.GetEndPosition() != nil {
			b.WriteString(" with a position")
		}
	}
	return b.String()
}

// showResult shows the result of an acquire or a release, which is done or is not.
func showResult(a arm, code Ydb.StatusIds_StatusCode, issues []*Ydb_Issue.IssueMessage, word string, done bool) string {
	switch {
	case code != Ydb.StatusIds_SUCCESS && done:
		return string(a) + " " + showVerdict(code, issues, 0) + " " + word
	case code != Ydb.StatusIds_SUCCESS:
		return string(a) + " " + showVerdict(code, issues, 0)
	case len(issues) > 0:
		word += " with issues"
	}
	if !done {
		return "not " + word
	}
	return word
}

func showPlainResult(a arm, code Ydb.StatusIds_StatusCode, issues []*Ydb_Issue.IssueMessage) string {
	if code == Ydb.StatusIds_SUCCESS && len(issues) == 0 {
		return strings.TrimSuffix(string(a), "e") + "ed"
	}
	return string(a) + " " + showVerdict(code, issues, 0)
}

func showDescribed(r *Ydb_Coordination.SessionResponse_DescribeSemaphoreResult, names nodeNames) string {
	watched := ""
	if r.GetWatchAdded() {
		watched = " watch_added"
	}
	d := r.GetSemaphoreDescription()
	switch {
	case r.GetStatus() != Ydb.StatusIds_SUCCESS && d == nil:
		return "describe " + showVerdict(r.GetStatus(), r.GetIssues(), 0) + watched
	case r.GetStatus() != Ydb.StatusIds_SUCCESS, len(r.GetIssues()) > 0:
		return "describe " + showVerdict(r.GetStatus(), r.GetIssues(), 0) + watched + " with a description"
	case d == nil:
		return "described nothing" + watched
	}
	var b strings.Builder
	fmt.Fprintf(&b, "described %s count=%s limit=%s", showName(d.GetName()), ShowNumber(d.GetCount()),
		ShowNumber(d.GetLimit()))
	if len(d.GetData()) > 0 {
		b.WriteString(" data=" + showData(string(d.GetData())))
	}
	if d.GetEphemeral() {
		b.WriteString(" ephemeral")
	}
	b.WriteString(watched)
	owners := slices.SortedFunc(slices.Values(d.GetOwners()),
		func(a, b *Ydb_Coordination.SemaphoreSession) int {
			return cmp.Compare(a.GetOrderId(), b.GetOrderId())
		})
	showLinks(&b, "owner", owners, names)
	showLinks(&b, "waiter", d.GetWaiters(), names)
	return b.String()
}

func showLinks(b *strings.Builder, kind string, links []*Ydb_Coordination.SemaphoreSession, names nodeNames) {
	for _, link := range links {
		fmt.Fprintf(b, "\n  %s order=%s session=%s count=%s", kind, names.order(link.GetOrderId()),
			names.session(link.GetSessionId()), ShowNumber(link.GetCount()))
		if kind == "waiter" || link.GetTimeoutMillis() != 0 {
			b.WriteString(" timeout=" + ShowMillis(link.GetTimeoutMillis()))
		}
		if len(link.GetData()) > 0 {
			b.WriteString(" data=" + showData(string(link.GetData())))
		}
	}
}

// ShowEnd shows how a stream ended.
func ShowEnd(s *status.Status) string {
	if s.Code() == codes.OK {
		return "end OK"
	}
	return fmt.Sprintf("end %s %q", showCode(s.Code()), s.Message())
}

// showCode is the code in the spelling of the gRPC specification.
func showCode(c codes.Code) string {
	if c == codes.Canceled {
		return "CANCELLED"
	}
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}
