package peers

import (
	"context"
	"crypto/x509"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

const (
	// headerKey is in the metadata of a call: the caller's header.
	headerKey = "coordd-peer-bin"
	// acceptedKey is in the header that answers a stream of messages.
	acceptedKey = "coordd-accepted"
	// streamKey is in the metadata of Open: the name of the stream.
	streamKey = "coordd-stream"
)

// handshake is an encoded header, which goes with every call on a connection. HPACK sends it once.
type handshake string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (h handshake) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{headerKey: string(h)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (handshake) RequireTransportSecurity() bool { return false }

type callerKey struct{}

// callerOf returns the header of the caller that identify has admitted.
func callerOf(ctx context.Context) *peerpb.Header { return ctx.Value(callerKey{}).(*peerpb.Header) }

// WithCaller returns the context of a call with its caller's header.
func WithCaller(ctx context.Context, h *peerpb.Header) context.Context {
	return context.WithValue(ctx, callerKey{}, h)
}

// identify judges the header of every call but Hello, before anything of the call is read, and keeps it in the context.
func identify(ctx context.Context, in Server, certificate *x509.Certificate,
	call *tap.Info) (context.Context, error) {
	if call.FullMethodName == peerpb.Peer_Hello_FullMethodName {
		return ctx, nil
	}
	h := &peerpb.Header{}
	for _, encoded := range call.Header.Get(headerKey) {
		if err := proto.Unmarshal([]byte(encoded), h); err != nil {
			return ctx, status.Error(codes.InvalidArgument, "header: "+err.Error())
		}
	}
	if err := in.Judge(h, certificate, call.FullMethodName == peerpb.Peer_Messages_FullMethodName); err != nil {
		return ctx, status.Convert(ToStatus(err)).Err()
	}
	return WithCaller(ctx, h), nil
}

// peerService serves the calls of other members. identify has judged their callers.
type peerService struct {
	peerpb.UnimplementedPeerServer
	in       Server
	services Services
}

// Hello implements peerpb.PeerServer.
func (p peerService) Hello(ctx context.Context, req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	answer, err := p.in.Hello(req, CertificateOf(ctx))
	return answer, ToStatus(err)
}

// Messages implements peerpb.PeerServer.
func (p peerService) Messages(s grpc.ClientStreamingServer[peerpb.Frame, peerpb.Received]) error {
	h := callerOf(s.Context())
	p.in.Opened(h)
	defer p.in.Lost(h)
	if err := s.SendHeader(metadata.Pairs(acceptedKey, "1")); err != nil {
		return err
	}
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		if err := p.in.Receive(h, f); err != nil {
			return ToStatus(err)
		}
	}
}

// Snapshot implements peerpb.PeerServer.
func (p peerService) Snapshot(s grpc.ClientStreamingServer[peerpb.Chunk, peerpb.Received]) error {
	if err := p.in.ReceiveSnapshot(callerOf(s.Context()), s.Recv); err != nil {
		return ToStatus(err)
	}
	return s.SendAndClose(&peerpb.Received{})
}

// Open implements peerpb.PeerServer.
func (p peerService) Open(s grpc.BidiStreamingServer[peerpb.Packet, peerpb.Packet]) error {
	name := strings.Join(metadata.ValueFromIncomingContext(s.Context(), streamKey), ",")
	serve := p.services.streams[name]
	if serve == nil {
		return status.Errorf(codes.Unimplemented, "this server knows no stream %q", name)
	}
	return serve(Caller(s.Context()), &memberStream{ServerStream: s, in: p.in, judged: p.in.Admitted()})
}

// Ask implements peerpb.PeerServer.
func (p peerService) Ask(ctx context.Context, question *anypb.Any) (*anypb.Any, error) {
	answer := p.services.answers[question.MessageName()]
	if answer == nil {
		return nil, status.Errorf(codes.Unimplemented, "this server knows no question %q", question.GetTypeUrl())
	}
	return answer(ctx, question)
}

// memberStream ends when its caller ceases to be a member.
type memberStream struct {
	grpc.ServerStream
	in     Server
	judged *membership.List // by which the caller is one
}

// RecvMsg implements grpc.ServerStream.
func (g *memberStream) RecvMsg(m any) error {
	if err := g.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if now := g.in.Admitted(); now != g.judged {
		if err := g.in.Judge(callerOf(g.Context()), CertificateOf(g.Context()), false); err != nil {
			return ToStatus(err)
		}
		g.judged = now
	}
	return nil
}

// ErrNotConnected reports that there is no connection to a member at the moment. Nothing was asked.
var ErrNotConnected = status.Error(codes.Unavailable, "there is no connection to the server")

// Services has the questions and streams of the layers above the log. They are registered before the store is opened.
type Services struct {
	answers map[protoreflect.FullName]func(ctx context.Context, question *anypb.Any) (*anypb.Any, error)
	streams map[string]func(from uint64, stream grpc.ServerStream) error
}

// Caller returns the member that asks a question.
func Caller(ctx context.Context) uint64 { return callerOf(ctx).GetFrom() }

// Answer registers the function that answers questions of one type.
func Answer[Q, A proto.Message](s *Services, answer func(ctx context.Context, question Q) (A, error)) {
	if s.answers == nil {
		s.answers = map[protoreflect.FullName]func(context.Context, *anypb.Any) (*anypb.Any, error){}
	}
	var none Q
	s.answers[none.ProtoReflect().Descriptor().FullName()] = func(ctx context.Context,
		packed *anypb.Any) (*anypb.Any, error) {
		question := none.ProtoReflect().New().Interface()
		if err := packed.UnmarshalTo(question); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		a, err := answer(ctx, question.(Q))
		if err != nil {
			return nil, err
		}
		return anypb.New(a)
	}
}

// Serve registers the function that serves streams of one name. It gets the member that has opened the stream.
func Serve[In, Out any](s *Services, name string,
	serve func(from uint64, stream grpc.BidiStreamingServer[In, Out]) error) {
	if s.streams == nil {
		s.streams = map[string]func(uint64, grpc.ServerStream) error{}
	}
	s.streams[name] = func(from uint64, stream grpc.ServerStream) error {
		return serve(from, &grpc.GenericServerStream[In, Out]{ServerStream: stream})
	}
}

// Ask asks a member over a connection; nil: the member is not connected.
func Ask(ctx context.Context, conn *grpc.ClientConn, question, answer proto.Message) error {
	if conn == nil {
		return ErrNotConnected
	}
	packed, err := anypb.New(question)
	if err != nil {
		return err
	}
	got, err := peerpb.NewPeerClient(conn).Ask(ctx, packed)
	if err != nil {
		return err
	}
	return got.UnmarshalTo(answer)
}

// Open opens a stream to a member.
func Open[Out, In any](ctx context.Context, conn *grpc.ClientConn, name string) (grpc.BidiStreamingClient[Out, In],
	error) {
	s, err := peerpb.NewPeerClient(conn).Open(metadata.AppendToOutgoingContext(ctx, streamKey, name))
	if err != nil {
		return nil, err
	}
	return &grpc.GenericClientStream[Out, In]{ClientStream: s}, nil
}
