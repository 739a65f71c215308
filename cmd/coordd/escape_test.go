package main

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// hostileText holds sequences that a terminal would obey: a title, a color, a cleared screen, a line of its own, a
// turned direction. Tables take a form feed for the end of a line.
const hostileText = "\x1b]0;OWNED\x07\x1b[31mred\x1b[2J\ncoordd: done\fcoordd: done\v\r\x7f\u202e\xff"

// hostile is a server that answers with such texts, in one of several ways, and without issues where one is expected.
type hostile struct {
	Ydb_Auth_V1.UnimplementedAuthServiceServer
	Ydb_Scheme_V1.UnimplementedSchemeServiceServer
}

func (hostile) Login(context.Context, *Ydb_Auth.LoginRequest) (*Ydb_Auth.LoginResponse, error) {
	return &Ydb_Auth.LoginResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_UNAUTHORIZED}}, nil
}

func (hostile) ListDirectory(_ context.Context,
	r *Ydb_Scheme.ListDirectoryRequest) (*Ydb_Scheme.ListDirectoryResponse, error) {
	text := strings.ToValidUTF8(hostileText, "")
	switch {
	case strings.HasSuffix(r.GetPath(), "grpc"):
		return nil, status.Error(codes.Internal, text)
	case strings.HasSuffix(r.GetPath(), "issue"):
		return &Ydb_Scheme.ListDirectoryResponse{Operation: &Ydb_Operations.Operation{Ready: true,
			Status: Ydb.StatusIds_GENERIC_ERROR, Issues: []*Ydb_Issue.IssueMessage{{Message: text}}}}, nil
	case strings.HasSuffix(r.GetPath(), "bare"):
		return &Ydb_Scheme.ListDirectoryResponse{}, nil
	}
	result, err := anypb.New(&Ydb_Scheme.ListDirectoryResult{Self: &Ydb_Scheme.Entry{Name: text},
		Children: []*Ydb_Scheme.Entry{{Name: text, Owner: text, Type: Ydb_Scheme.Entry_COORDINATION_NODE}}})
	return &Ydb_Scheme.ListDirectoryResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_SUCCESS, Result: result}}, err
}

// answerHostile answers any other call by a message all of whose texts are hostile.
func answerHostile(_ any, stream grpc.ServerStream) error {
	called, _ := grpc.MethodFromServerStream(stream)
	name := protoreflect.FullName(strings.ReplaceAll(called[1:], "/", "."))
	method, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return status.Error(codes.Unimplemented, string(name))
	}
	answered := method.(protoreflect.MethodDescriptor).Output().FullName()
	answer, err := protoregistry.GlobalTypes.FindMessageByName(answered)
	if err != nil {
		return err
	}
	m := answer.New()
	fillHostile(m, 0)
	if field := m.Descriptor().Fields().ByName("operation"); field != nil {
		result, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(
			strings.TrimSuffix(string(answered), "Response") + "Result"))
		if err != nil {
			return err
		}
		filled := result.New()
		fillHostile(filled, 0)
		packed, err := anypb.New(filled.Interface())
		if err != nil {
			return err
		}
		m.Set(field, protoreflect.ValueOfMessage((&Ydb_Operations.Operation{Ready: true,
			Status: Ydb.StatusIds_SUCCESS, Result: packed}).ProtoReflect()))
	}
	return stream.SendMsg(m.Interface())
}

// fillHostile gives all texts of a message the hostile one, numbers 1, and lists one element.
func fillHostile(m protoreflect.Message, depth int) {
	text := strings.ToValidUTF8(hostileText, "")
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		var value protoreflect.Value
		switch field.Kind() {
		case protoreflect.StringKind:
			value = protoreflect.ValueOfString(text)
		case protoreflect.BoolKind:
			value = protoreflect.ValueOfBool(true)
		case protoreflect.EnumKind:
			value = protoreflect.ValueOfEnum(1)
		case protoreflect.Uint64Kind:
			value = protoreflect.ValueOfUint64(1)
		}
		isMessage := field.Message() != nil
		switch {
		case field.IsMap(), field.Name() == "next_page_token", isMessage && depth > 3:
		case isMessage && field.IsList():
			fillHostile(m.Mutable(field).List().AppendMutable().Message(), depth+1)
		case isMessage:
			fillHostile(m.Mutable(field).Message(), depth+1)
		case value.IsValid() && field.IsList():
			m.Mutable(field).List().Append(value)
		case value.IsValid():
			m.Set(field, value)
		}
	}
}

// No answer of a server makes the command line panic, moves the cursor or begins a line that looks like the program's
// own.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(answerHostile))
	Ydb_Auth_V1.RegisterAuthServiceServer(server, hostile{})
	Ydb_Scheme_V1.RegisterSchemeServiceServer(server, hostile{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	for _, command := range []string{"ls", "ls grpc", "ls issue", "ls bare", "node tree", "node ls", "semaphore ls",
		"session ls", "session show app 1", "ls -o json", "session ls -o jsonl", "ls --user u", "node show app",
		"node quota app", "top --times 1", "ratelimiter ls", "ratelimiter describe app r",
		"user list", "health", "cluster status", "cluster status -o json",
		"cluster limits", "cluster add b b:1", "cluster transfer-leader b", "cluster promote b --wait"} {
		r := newRun(newFakeServer())
		r.Stdin = strings.NewReader("password\n")
		r.begin(append(strings.Fields(command), "--endpoint", "grpc://"+listener.Addr().String()+"/local")...)
		r.wait(t)
		said := r.out.String() + r.log.String()
		if strings.ContainsAny(said, "\x1b\a\r\f\v\x7f\u202e") ||
			strings.Contains("\n"+r.out.String(), "\ncoordd: done") ||
			strings.Contains(r.log.String(), "\ncoordd: done") || said == "" {
			t.Errorf("%s: a terminal would obey %q", command, said)
		}
		if strings.HasSuffix(command, "json") && !json.Valid([]byte(r.out.String())) {
			t.Errorf("%s: no JSON: %s", command, said)
		}
		if command == "ls --user u" && !strings.Contains(said, "log in as u") {
			t.Errorf("%s: %q", command, said)
		}
	}
}
