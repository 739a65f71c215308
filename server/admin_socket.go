package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/listen"
)

// serveSocket serves whoever can open the socket in the data directory, as an administrator: who can, owns the data. A
// server that cannot have one, as on a file system without sockets, goes on without.
func (s *Server) serveSocket() {
	if s.config.InMemory {
		return
	}
	socket, err := listen.Socket(s.config.DataDir)
	if err != nil {
		s.config.Logger.Warn("no administrator's socket: administrators have to log in", "error", err)
		return
	}
	s.serveOn(s.connections.Count(socket))
}

// isLocal tells whether a caller may do what, by the rule of older versions, everybody on the server's machine may.
func (s *Server) isLocal(ctx context.Context) bool {
	return s.config.LoopbackAdmin && auth.FromLoopback(ctx)
}

// readsOnly are the administrators' calls that change nothing and take nothing away.
var readsOnly = map[string]bool{adminpb.Users_List_FullMethodName: true, adminpb.Cluster_Status_FullMethodName: true,
	adminpb.Cluster_Limits_FullMethodName: true, adminpb.Inspect_ListNodes_FullMethodName: true,
	adminpb.Inspect_ListSemaphores_FullMethodName: true, adminpb.Inspect_ListSessions_FullMethodName: true,
	adminpb.Inspect_Watch_FullMethodName: true}

// audited tells whether a call is to be found in the log.
func audited(method string) bool {
	return strings.HasPrefix(method, "/coordd.admin.v1.") && !readsOnly[method]
}

// auditUnary writes a line for each administrative act, with who did it to what and what came of it.
func (s *Server) auditUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	if audited(info.FullMethod) {
		s.audit(ctx, info.FullMethod, targetOf(request), err)
	}
	return answer, err
}

// auditStream is the same for streams. Its line comes at the end.
func (s *Server) auditStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(service, stream)
	if audited(info.FullMethod) {
		s.audit(stream.Context(), info.FullMethod, "", err)
	}
	return err
}

// audit writes the line. What was refused is for the curious: strangers could fill the log with it.
func (s *Server) audit(ctx context.Context, method, target string, err error) {
	act := strings.TrimPrefix(method, "/coordd.admin.v1.")
	from := auth.SourceOf(ctx)
	if p, ok := peer.FromContext(ctx); ok && !auth.FromSocket(ctx) {
		from = p.Addr.String()
	}
	fields := []any{"act", act, "target", target, "user", auth.Of(ctx).String(), "from", from}
	switch code := status.Code(err); code {
	case codes.OK:
		s.config.Logger.Info("administration", fields...)
	case codes.PermissionDenied, codes.Unauthenticated:
		s.config.Logger.Debug("administration refused", append(fields, "error", status.Convert(err).Message())...)
	default:
		s.config.Logger.Warn("administration failed", append(fields, "error", status.Convert(err).Message())...)
	}
}

// targetOf is what a request is about: a user, or a member and the address that it is to have.
func targetOf(request any) string {
	switch r := request.(type) {
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
	case *adminpb.EndSessionRequest:
		return inspected(r)
	case *adminpb.DeleteSemaphoreRequest:
		return deleted(r)
	case *adminpb.SetLimitsRequest:
		return "a state of " + stateLimitText(r.GetStateBytes())
	}
	return ""
}
