package server

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
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

// inspectHost is what the inspection service needs of the server.
type inspectHost struct{ *Server }

// Inspects implements inspect.Host.
func (h inspectHost) Inspects(ctx context.Context) error {
	switch mode := h.config.inspectMode(); {
	case mode == InspectOff:
		return errInspectOff
	case mode == InspectLocal && !auth.FromSocket(ctx) && !auth.FromLoopback(ctx):
		return errInspectLocal
	case auth.Of(ctx).ByToken() && !h.auth.StillValid(auth.Of(ctx), h.group.Accounts()):
		// revoked while a watch went on
		return auth.ErrInvalidToken
	}
	return nil
}

// InspectsAs implements inspect.Host.
func (h inspectHost) InspectsAs(ctx context.Context) coordination.Caller { return h.calls.Caller(ctx) }

// InTime implements inspect.Host.
func (h inspectHost) InTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.calls.InTime(ctx)
}

// Execute implements inspect.Host.
func (h inspectHost) Execute(ctx context.Context,
	build func(coordination.CallID) coordination.Command) (outcome.Outcome, error) {
	return h.calls.Execute(ctx, build)
}

// Status implements inspect.Host.
func (h inspectHost) Status(ctx context.Context, answer outcome.Outcome, err error) error {
	return calls.GRPCStatus(ctx, answer, err)
}
