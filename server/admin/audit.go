package admin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/inspect"
	"github.com/coordd/coordd/server/statelimit"
)

// Audit logs administrative acts. A server has one, around all its calls.
type Audit struct {
	Group  *group.Group
	Logger *slog.Logger

	refused  lograte.ByKey // acts of callers who are not administrators, by where they come from
	repeated lograte.ByKey // failed acts of administrators, and acts of others
	data     lograte.ByKey // changes of data by calls, by semaphore and user
	rights   lograte.ByKey // changes of permissions by others than administrators
}

// NewAudit returns an Audit of a group.
func NewAudit(g *group.Group, logger *slog.Logger) *Audit {
	return &Audit{Group: g, Logger: logger, data: lograte.ByKey{Longest: time.Second},
		rights: lograte.ByKey{Longest: time.Second}}
}

// readsOnly are the administrators' calls that change nothing and take nothing away.
var readsOnly = map[string]bool{adminpb.Users_List_FullMethodName: true,
	adminpb.Cluster_Status_FullMethodName: true, adminpb.Cluster_Limits_FullMethodName: true,
	adminpb.Cluster_Quotas_FullMethodName: true, adminpb.Inspect_List_FullMethodName: true,
	adminpb.Inspect_Watch_FullMethodName: true, adminpb.Inspect_Versions_FullMethodName: true,
	adminpb.Inspect_Children_FullMethodName: true, adminpb.Inspect_Rights_FullMethodName: true,
	adminpb.Console_Servers_FullMethodName: true, adminpb.Inspect_Events_FullMethodName: true,
	adminpb.Inspect_Slow_FullMethodName: true}

// changes are the methods of YDB's services that change what administrators make.
var changes = map[string]bool{
	Ydb_Scheme_V1.SchemeService_ModifyPermissions_FullMethodName:        true,
	Ydb_Scheme_V1.SchemeService_MakeDirectory_FullMethodName:            true,
	Ydb_Scheme_V1.SchemeService_RemoveDirectory_FullMethodName:          true,
	Ydb_Coordination_V1.CoordinationService_CreateNode_FullMethodName:   true,
	Ydb_Coordination_V1.CoordinationService_AlterNode_FullMethodName:    true,
	Ydb_Coordination_V1.CoordinationService_DropNode_FullMethodName:     true,
	Ydb_RateLimiter_V1.RateLimiterService_CreateResource_FullMethodName: true,
	Ydb_RateLimiter_V1.RateLimiterService_AlterResource_FullMethodName:  true,
	Ydb_RateLimiter_V1.RateLimiterService_DropResource_FullMethodName:   true,
}

// audited reports whether a call is to be found in the log.
func audited(method string) bool {
	return changes[method] || strings.HasPrefix(method, "/coordd.admin.v1.") && !readsOnly[method]
}

// Unary writes a line for each administrative act, with who did it to what and what came of it.
func (a *Audit) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	if audited(info.FullMethod) {
		refusal := err
		if err == nil {
			refusal = refusalIn(answer)
		}
		a.log(ctx, info.FullMethod, request, refusal)
	}
	return answer, err
}

// Stream is the same for streams. Its line comes at the end.
func (a *Audit) Stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	err := handler(service, stream)
	if audited(info.FullMethod) {
		a.log(stream.Context(), info.FullMethod, nil, err)
	}
	return err
}

// log writes the line. Everything that an administrator changes has one, but data without a reason, of which a
// semaphore has one a second. All else is rate-limited: refusals by where they come from, and what is done or has
// failed by what it is, for callers can repeat it.
func (a *Audit) log(ctx context.Context, method string, request any, err error) {
	act, target := method[strings.LastIndex(method, ".")+1:], targetOf(request)
	from := auth.SourceOf(ctx)
	if p, ok := peer.FromContext(ctx); ok && !auth.FromSocket(ctx) {
		from = p.Addr.String()
	}
	id := auth.Of(ctx)
	fields := []any{"act", act, "target", lograte.Cut(target) + because(request), "user",
		lograte.Cut(id.String()), "from", from}
	text, level := "administration", slog.LevelInfo
	if err != nil {
		text, level = "administration failed", slog.LevelWarn
		if code := status.Code(err); code == codes.PermissionDenied || code == codes.Unauthenticated {
			text = "administration refused"
		}
		fields = append(fields, "error", lograte.Cut(status.Convert(err).Message()))
	}
	administers := a.administrates(ctx)
	update, isData := request.(*adminpb.UpdateDataRequest)
	isData = isData && !(administers && update.GetReason() != "") // a person has thought of the reason
	if err != nil || !administers || isData {
		if isData { // each has another version
			target = update.GetPath() + "\n" + string(update.GetName())
		}
		limiters, kind := &a.repeated, strings.Join([]string{text, act, target, id.String()}, "\n")
		switch {
		case err != nil && !administers:
			limiters, kind = &a.refused, auth.SourceOf(ctx)
		case err == nil && isData:
			limiters = &a.data
		case err == nil && method == Ydb_Scheme_V1.SchemeService_ModifyPermissions_FullMethodName:
			limiters = &a.rights // nobody hides them among directories
		}
		ok, hidden := limiters.Allow(kind, time.Now())
		if !ok {
			return
		}
		if hidden > 0 || !administers {
			fields = append(fields, lograte.Suppressed, hidden)
		}
	}
	a.Logger.Log(ctx, level, text, fields...)
}

// administrates reports whether a caller is an administrator, as far as this server knows.
func (a *Audit) administrates(ctx context.Context) bool {
	id := auth.Of(ctx)
	return id.Owns() || a.Group.Accounts().IsAdministrator(id.Name)
}

// refusalIn is why an operation of YDB's was refused, which is no error of the call.
func refusalIn(answer any) error {
	operation, _ := calls.OperationIn(answer)
	if operation == nil {
		return nil
	}
	code := codes.PermissionDenied
	switch operation.GetStatus() {
	case Ydb.StatusIds_SUCCESS, Ydb.StatusIds_STATUS_CODE_UNSPECIFIED:
		return nil
	case Ydb.StatusIds_UNAUTHORIZED:
	case Ydb.StatusIds_UNAVAILABLE, Ydb.StatusIds_OVERLOADED, Ydb.StatusIds_TIMEOUT,
		Ydb.StatusIds_UNDETERMINED, Ydb.StatusIds_INTERNAL_ERROR:
		code = codes.Unavailable
	default:
		code = codes.InvalidArgument
	}
	text := operation.GetStatus().String()
	if issues := operation.GetIssues(); len(issues) > 0 {
		text = issues[0].GetMessage()
	}
	return status.Error(code, text)
}

// permissionsText is what a request about permissions asks for.
func permissionsText(r *Ydb_Scheme.ModifyPermissionsRequest) string {
	words := []string{lograte.Printable(r.GetPath(), 64) + ":"} // the path must leave room for the rest
	if r.GetClearPermissions() {
		words = append(words, "clear")
	}
	add := func(what string, p *Ydb_Scheme.Permissions) {
		if p != nil {
			words = append(words, what, p.GetSubject(), strings.Join(p.GetPermissionNames(), "+"))
		}
	}
	for i, action := range r.GetActions() {
		if i == targetActionsMax {
			words = append(words, fmt.Sprintf("and %d more", len(r.GetActions())-i))
			break
		}
		add("grant", action.GetGrant())
		add("revoke", action.GetRevoke())
		add("set", action.GetSet())
		if owner := action.GetChangeOwner(); owner != "" {
			words = append(words, "owner", owner)
		}
	}
	return strings.Join(words, " ")
}

// targetActionsMax is how many changes of permissions a line names.
const targetActionsMax = 4

// targetOf names the subject of a request: a user, a path, or a member and the address that it is to have.
func targetOf(request any) string {
	switch r := request.(type) {
	case interface {
		GetCoordinationNodePath() string
		GetResource() *Ydb_RateLimiter.Resource
	}:
		return r.GetCoordinationNodePath() + ": " + r.GetResource().GetResourcePath()
	case *Ydb_RateLimiter.DropResourceRequest:
		return r.GetCoordinationNodePath() + ": " + r.GetResourcePath()
	case *adminpb.AddRequest:
		if r.GetAdministrator() {
			return r.GetName() + ", an administrator"
		}
		return r.GetName()
	case *adminpb.SetPasswordRequest:
		return r.GetName()
	case *adminpb.RemoveRequest:
		return r.GetName()
	case *adminpb.AddMemberRequest:
		return r.GetName() + " at " + r.GetPeerAddress()
	case *adminpb.PromoteMemberRequest:
		return r.GetMember()
	case *adminpb.RemoveMemberRequest:
		return r.GetMember()
	case *adminpb.TransferLeaderRequest:
		return r.GetTo()
	case *Ydb_Scheme.ModifyPermissionsRequest:
		return permissionsText(r)
	case *adminpb.EndSessionRequest:
		return inspected(r)
	case *adminpb.DeleteSemaphoreRequest:
		return deleted(r)
	case *adminpb.UpdateDataRequest:
		return fmt.Sprintf("semaphore %q of %q, %d bytes for version %d", inspect.Shown(r.GetName()),
			inspect.Shown(r.GetPath()), len(r.GetData()), r.GetExpected())
	case *adminpb.SetHistoryRequest:
		return fmt.Sprintf("%s: %s", lograte.Printable(r.GetPath(), 64), r.GetHistory())
	case *adminpb.SetQuotaRequest:
		return fmt.Sprintf("%s: %d bytes, %d entries", lograte.Printable(r.GetPath(), 64), r.GetBytes(),
			r.GetEntries())
	case *adminpb.SetLimitsRequest:
		return "a state of " + statelimit.Text(r.GetStateBytes())
	case interface{ GetPath() string }: // of a node or directory
		return r.GetPath()
	}
	return ""
}

// inspected is which session a request is about, for the log.
func inspected(r *adminpb.EndSessionRequest) string {
	return fmt.Sprintf("session %d of %q", r.GetSession(), inspect.Shown(r.GetPath()))
}

// because is the reason that a request gives, which is whole in the log however long the target is.
func because(request any) string {
	r, gives := request.(interface{ GetReason() string })
	if !gives || r.GetReason() == "" {
		return ""
	}
	return fmt.Sprintf(", because of %q", inspect.Shown(r.GetReason()))
}

// deleted is the same for a semaphore.
func deleted(r *adminpb.DeleteSemaphoreRequest) string {
	text := fmt.Sprintf("semaphore %q", inspect.Shown(r.GetName()))
	if r.GetId() != 0 {
		text = fmt.Sprintf("semaphore %d", r.GetId())
	}
	text += fmt.Sprintf(" of %q", inspect.Shown(r.GetPath()))
	if r.GetForce() {
		text += ", with force"
	}
	return text
}
