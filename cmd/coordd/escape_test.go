package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/server/adminpb"
)

// hostileText is what a terminal would obey: a title, a color, a cleared screen, a line of its own, a turned direction.
const hostileText = "\x1b]0;OWNED\x07\x1b[31mred\x1b[2J\ncoordd: done\r\u202e\xff"

// hostile is a server that answers with such texts, in one of several ways, and without issues where one is expected.
type hostile struct {
	Ydb_Auth_V1.UnimplementedAuthServiceServer
	Ydb_Scheme_V1.UnimplementedSchemeServiceServer
	adminpb.UnimplementedInspectServer
}

func (hostile) Login(context.Context, *Ydb_Auth.LoginRequest) (*Ydb_Auth.LoginResponse, error) {
	return &Ydb_Auth.LoginResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_UNAUTHORIZED}}, nil
}

func (hostile) ListDirectory(_ context.Context, r *Ydb_Scheme.ListDirectoryRequest) (*Ydb_Scheme.ListDirectoryResponse, error) {
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

func (hostile) ListSemaphores(context.Context, *adminpb.ListSemaphoresRequest) (*adminpb.ListSemaphoresResponse, error) {
	text := strings.ToValidUTF8(hostileText, "")
	return &adminpb.ListSemaphoresResponse{Semaphores: []*adminpb.Semaphore{{Path: text, Name: text, Data: text}}}, nil
}

func (hostile) ListSessions(context.Context, *adminpb.ListSessionsRequest) (*adminpb.ListSessionsResponse, error) {
	text := strings.ToValidUTF8(hostileText, "")
	return &adminpb.ListSessionsResponse{Sessions: []*adminpb.Session{{Path: text, Id: 1, Description: text, Server: text,
		Attached: true, ClientUnknown: text, Owned: []*adminpb.Link{{Name: text, Data: text}}}}}, nil
}

func (hostile) ListNodes(context.Context, *adminpb.ListNodesRequest) (*adminpb.ListNodesResponse, error) {
	text := strings.ToValidUTF8(hostileText, "")
	return &adminpb.ListNodesResponse{Nodes: []*adminpb.Node{{Path: text, Owner: text}}}, nil
}

// No answer of a server makes the command line panic, moves the cursor or begins a line that looks like the program's own.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	Ydb_Auth_V1.RegisterAuthServiceServer(server, hostile{})
	Ydb_Scheme_V1.RegisterSchemeServiceServer(server, hostile{})
	adminpb.RegisterInspectServer(server, hostile{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	for _, command := range []string{"ls", "ls grpc", "ls issue", "ls bare", "node tree", "node ls", "semaphore ls", "session ls",
		"session show app 1", "ls -o json", "session ls -o yaml", "ls --user u"} {
		r := newRun(newFakeServer())
		r.stdin = strings.NewReader("password\n")
		r.begin(append(strings.Fields(command), "--endpoint", "grpc://"+listener.Addr().String()+"/local")...)
		r.wait(t)
		said := r.out.String() + r.log.String()
		if strings.ContainsAny(said, "\x1b\a\r\u202e") || strings.Contains("\n"+r.out.String(), "\ncoordd: done") ||
			strings.Contains(r.log.String(), "\ncoordd: done") || said == "" {
			t.Errorf("%s: a terminal would obey %q", command, said)
		}
		if command == "ls --user u" && !strings.Contains(said, "log in as u") {
			t.Errorf("%s: %q", command, said)
		}
	}
}

// What cannot be printed is escaped, also where a rune comes in two writes; what can is left alone.
func TestEscaper(t *testing.T) {
	var out bytes.Buffer
	e := &escaper{w: &out}
	for _, part := range []string{"a\tb\n", "\x1b[2J", "\xc3", "\xa9\xe2\x80", "\xae", "\xffz", "\U000E0001"} {
		if n, err := e.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := "a\tb\n" + `\x1b[2J` + "é" + `\u202e` + `\xffz` + `\U000e0001`; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
