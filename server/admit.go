package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/console"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/wire"
)

// What happens to a call before its first message is received: it is counted (package listen), it is found
// out who calls, and the message is given a time and a size. Nobody's message is waited for, or decompressed,
// who may not call.

const (
	sessionPath       = "/Ydb.Coordination.V1.CoordinationService/Session"
	permissionsMethod = "/Ydb.Scheme.V1.SchemeService/ModifyPermissions"
	checkMethod       = healthService + "Check"
	watchMethod       = healthService + "Watch"
	reflectionService = "/grpc.reflection."
)

// kindOf returns how long a call of the method may last.
func kindOf(method string) listen.Kind {
	switch {
	case method == sessionPath:
		return listen.Session
	case method == checkMethod:
		return listen.Probe
	case method == watchMethod, method == adminpb.Inspect_Watch_FullMethodName,
		strings.HasPrefix(method, reflectionService):
		return listen.Standing
	}
	return listen.Brief
}

// mostBytes bounds the messages of a method's caller.
func mostBytes(method string) int {
	switch {
	case method == sessionPath, method == permissionsMethod, method == adminpb.Inspect_UpdateData_FullMethodName:
		return maxRequestBytes
	case needsNoToken(method):
		return maxLoginBytes
	}
	return maxCallBytes
}

// admittingServices registers services whose calls are admitted before anything is received of them. gRPC's
// interceptors of calls with one request come behind that.
type admittingServices struct {
	*grpc.Server
	server *Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (a admittingServices) RegisterService(desc *grpc.ServiceDesc, service any) {
	admitting := *desc
	admitting.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for _, m := range desc.Streams {
		a.server.meters.Add("/" + desc.ServiceName + "/" + m.StreamName)
	}
	for i, m := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + m.MethodName
		admitting.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: a.server.admitting(name, m.Handler)}
		a.server.http.methods[name] = console.Method{Service: service, Handler: admitting.Methods[i].Handler}
	}
	a.Server.RegisterService(&admitting, service)
}

// admitting is a method's handler behind the admission.
func (s *Server) admitting(method string, handler grpc.MethodHandler) grpc.MethodHandler {
	meter := s.meters.Add(method)
	return func(service any, ctx context.Context, receive func(any) error,
		interceptor grpc.UnaryServerInterceptor) (answer any, err error) {
		begun := time.Now()
		defer func() { meter.Timed(begun, answer, err) }()
		defer s.panics.Guard(method, &err)
		call := listen.CallOf(ctx)
		ctx, first, err := s.admit(ctx, call, method)
		if err != nil {
			return nil, err
		}
		defer call.End()
		defer first.end()
		defer func() {
			if m, is := answer.(proto.Message); is {
				call.Answered(proto.Size(m))
			}
		}()
		return handler(service, ctx, func(m any) error {
			err := call.Receive(receive, m)
			if !first.end() {
				return errReceiveOverdue.Err()
			}
			if err != nil {
				return err
			}
			if name, sent := calls.Database(ctx); sent {
				wire.ResolvePath(m, name)
			}
			return fits(call, mostBytes(method))
		}, interceptor)
	}
}

// admit returns the context of a call that may be served, with its caller, and the wait for its first message, which
// is nil for a Session stream, as that has its own. End the call and the wait.
func (s *Server) admit(ctx context.Context, call *listen.Call, method string) (context.Context, *awaited, error) {
	if err := call.Begin(ctx); err != nil {
		return nil, nil, err
	}
	ctx, err := s.authenticate(ctx, method)
	var first *awaited
	if err == nil {
		if kindOf(method) != listen.Session { // gRPC itself refuses what is too large for those
			first = s.firstMessage(ctx)
			call.EndIfTooLarge(func(size, most int) { listen.EndCall(ctx, errTooLarge(size, most)) })
		}
		if err = call.Identify(auth.Of(ctx).Name, first.evict); err != nil {
			first.end()
		}
	}
	if err != nil {
		call.End()
		return nil, nil, err
	}
	return ctx, first, nil
}

// errTooLarge is the end of a call whose message is longer than most bytes.
func errTooLarge(size, most int) error {
	return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size,
		most)
}

// fits fails where the message that a call has received last is too large.
func fits(call *listen.Call, most int) error {
	if size := call.LastBytes(); size > most {
		return errTooLarge(size, most)
	}
	return nil
}

// admitStream is the same for calls with streams.
func (s *Server) admitStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	defer func() { s.meters.Ended(info.FullMethod, err) }()
	call := listen.CallOf(stream.Context())
	ctx, first, err := s.admit(stream.Context(), call, info.FullMethod)
	if err != nil {
		return err
	}
	defer call.End()
	defer first.end()
	return handler(service, &admittedStream{ServerStream: stream, ctx: ctx, call: call,
		most: mostBytes(info.FullMethod), first: first})
}

// admittedStream is a stream whose context knows who opened it.
type admittedStream struct {
	grpc.ServerStream
	ctx   context.Context
	call  *listen.Call
	most  int      // bytes of a message
	first *awaited // nil once it has come
}

// Context implements grpc.ServerStream.
func (s *admittedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *admittedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(s.call.Expect(m))
	s.call.Expected()
	if s.first != nil {
		inTime := s.first.end()
		s.first = nil
		if !inTime {
			return errReceiveOverdue.Err()
		}
	}
	if err != nil {
		return err
	}
	if err = fits(s.call, s.most); err != nil {
		listen.EndCall(s.ctx, err) // as gRPC ends a stream when a message cannot be received
	}
	return err
}

var errReceiveOverdue = status.New(codes.DeadlineExceeded, "Request did not come in time")

// awaited is a message that has to come in time. When the time is over the wait ends.
type awaited struct {
	ctx   context.Context // of the call
	timer *time.Timer
	ended bool
	came  bool
}

// firstMessage begins to wait for the first message of a call.
func (s *Server) firstMessage(ctx context.Context) *awaited {
	a := &awaited{ctx: ctx}
	patience := s.config.Hardening.Receive
	if s.auth.Required && auth.Of(ctx) == auth.Anonymous {
		patience = min(patience, s.config.Hardening.ReceiveUnknown)
	}
	a.timer = time.AfterFunc(patience, func() { listen.EndCall(ctx, errReceiveOverdue.Err()) })
	return a
}

// evict ends the call, whose place another one takes.
func (a *awaited) evict() { listen.EndCall(a.ctx, listen.ErrTooManyCalls) }

// end reports whether the message came in time. Only the first call counts.
func (a *awaited) end() bool {
	if a == nil {
		return true
	}
	if !a.ended {
		a.ended, a.came = true, a.timer.Stop()
	}
	return a.came
}
