package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/auth"
)

var (
	errInspectOff = status.Error(codes.PermissionDenied,
		"The inspection service is switched off on this server (--inspect=off)")
	errInspectLocal = status.Error(codes.PermissionDenied,
		"The inspection service of this server serves callers on its own machine only "+
			"(--inspect=local); go there, or start the server with --auth=required or --inspect=on")
)

// inspects returns the refusal for a caller that the inspection service does not serve at all.
func (s *Server) inspects(ctx context.Context) error {
	switch mode := s.config.inspectMode(); {
	case mode == InspectOff:
		return errInspectOff
	case mode == InspectLocal && !auth.Of(ctx).Owns() && !auth.FromSocket(ctx) &&
		!auth.FromLoopback(ctx):
		return errInspectLocal
	case auth.Of(ctx).ByToken() && !s.auth.StillValid(auth.Of(ctx), s.group.Accounts()):
		// revoked while a watch went on
		return auth.ErrInvalidToken
	}
	return nil
}
