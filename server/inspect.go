package server

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/auth"
)

// The values of Config.Inspect: whom the inspection service serves.
const (
	// InspectOff is nobody.
	InspectOff = "off"
	// InspectLocal is whoever has opened the administrator's socket, or comes by way of the loopback
	// addresses.
	InspectLocal = "local"
	// InspectOn is everybody whom the listeners let in; where authentication is required rights count.
	InspectOn = "on"
)

func (c Config) validateInspect() error {
	switch c.Inspect {
	case "", InspectOff, InspectLocal, InspectOn:
		return nil
	}
	return fmt.Errorf("inspect %q: want %s, %s or %s", c.Inspect, InspectOff, InspectLocal, InspectOn)
}

// inspectMode is Config.Inspect, or what stands for it: strangers are shown nothing where nobody's rights
// count.
func (c Config) inspectMode() string {
	switch {
	case c.Inspect != "":
		return c.Inspect
	case c.Auth == AuthRequired, (c.Listen == "" || onLoopback(c.Listen)) && (c.ListenTLS == "" || onLoopback(c.ListenTLS)):
		return InspectOn
	}
	return InspectLocal
}

// onLoopback reports whether only callers on the same machine reach a listener.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

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
	case mode == InspectLocal && !auth.FromSocket(ctx) && !auth.FromLoopback(ctx):
		return errInspectLocal
	case auth.Of(ctx).ByToken() && !s.auth.StillValid(auth.Of(ctx), s.group.Accounts()):
		// revoked while a watch went on
		return auth.ErrInvalidToken
	}
	return nil
}
