package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// Endpoint runs scripts on a server, whatever it is, over gRPC. Make one with Dial.
type Endpoint struct {
	database   string
	token      string
	users      map[string]string
	security   credentials.TransportCredentials
	restart    func(context.Context) (address string, err error)
	patience   time.Duration
	connection *grpc.ClientConn
	directory  string
}

// EndpointConfig describes a server and its abilities.
type EndpointConfig struct {
	Address  string // host:port
	Database string // absolute path
	Token    string // x-ydb-auth-ticket; empty sends none
	// Users are the tokens of alice and bob, whose rights count; Token is an administrator's then. Nil:
	// scripts that need users are skipped.
	Users map[string]string
	// Security is the encryption of the connection. Nil: plaintext.
	Security credentials.TransportCredentials
	// Restart restarts the server and returns its address. Nil: scripts that need a restart are skipped.
	Restart func(context.Context) (address string, err error)
	// Patience limits the wait for something that should come; 0: 5 s.
	Patience time.Duration
}

const defaultPatience = 5 * time.Second

// Dial connects to a server and makes a directory with a new name below its database. Close removes it.
func Dial(ctx context.Context, config EndpointConfig) (*Endpoint, error) {
	e := &Endpoint{database: config.Database, token: config.Token, users: config.Users,
		security: config.Security, restart: config.Restart,
		patience:  cmp.Or(config.Patience, defaultPatience),
		directory: config.Database + "/conformance-" + strings.ToLower(rand.Text()[:8])}
	if e.security == nil {
		e.security = insecure.NewCredentials()
	}
	if err := e.dial(config.Address); err != nil {
		return nil, err
	}
	if err := succeeded(e.call(ctx, makeDirectory(e.directory), &e.database)); err != nil {
		return nil, errors.Join(fmt.Errorf("make directory %s: %w", e.directory, err), e.connection.Close())
	}
	return e, nil
}

const maxMessageBytes = 64_000_000

func (e *Endpoint) dial(address string) error {
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(e.security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes),
			grpc.MaxCallSendMsgSize(2*maxMessageBytes)))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	e.connection = connection
	return nil
}

// Close removes the directory and the connection.
func (e *Endpoint) Close(ctx context.Context) error {
	return errors.Join(e.remove(ctx, e.directory), e.connection.Close())
}

// Offers implements Target.
func (e *Endpoint) Offers(need Need) bool {
	switch need {
	case NeedWire, NeedSameLeader:
		return true
	case NeedOpen:
		return e.token == ""
	case NeedUsers:
		return len(e.users) > 0
	case NeedRestart:
		return e.restart != nil
	}
	return false
}

// Open implements Target.
func (e *Endpoint) Open(ctx context.Context, name string, _ coordination.Limits) (Environment, error) {
	env := &endpointEnvironment{Endpoint: e, path: e.directory + "/" + strings.ReplaceAll(name, "/", "-"),
		events: make(chan Event, 1024)}
	env.ctx, env.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := succeeded(env.Call(ctx, makeDirectory(env.path), &e.database)); err != nil {
		return nil, fmt.Errorf("make directory %s: %w", env.path, err)
	}
	return env, nil
}

func (e *Endpoint) outgoing(ctx context.Context, database *string) context.Context {
	var pairs []string
	if database != nil {
		pairs = append(pairs, "x-ydb-database", *database)
	}
	token := e.token
	if name := userOf(ctx); name != "" {
		token = e.users[name]
	}
	if token != "" {
		pairs = append(pairs, "x-ydb-auth-ticket", token)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// call makes a unary call. The method is the one that its request is named after.
func (e *Endpoint) call(ctx context.Context, request proto.Message,
	database *string) (*Ydb_Operations.Operation, error) {
	ctx, cancel := context.WithTimeout(e.outgoing(ctx, database), e.patience)
	defer cancel()
	name := request.ProtoReflect().Descriptor().FullName()
	method := fmt.Sprintf("/%s.V1.%sService/%s", name.Parent(), name.Parent().Name(),
		strings.TrimSuffix(string(name.Name()), "Request"))
	answer := new(Ydb_Operations.GetOperationResponse) // all answers have their operation in the same field
	err := e.connection.Invoke(ctx, method, request, answer)
	return answer.GetOperation(), err
}

// remove removes a directory with everything below it.
func (e *Endpoint) remove(ctx context.Context, directory string) error {
	operation, err := e.call(ctx, &Ydb_Scheme.ListDirectoryRequest{Path: directory}, &e.database)
	if err := succeeded(operation, err); err != nil {
		return fmt.Errorf("list %s: %w", directory, err)
	}
	list := &Ydb_Scheme.ListDirectoryResult{}
	if err := operation.GetResult().UnmarshalTo(list); err != nil {
		return err
	}
	for _, child := range list.GetChildren() {
		path := directory + "/" + child.GetName()
		switch child.GetType() {
		case Ydb_Scheme.Entry_DIRECTORY:
			err = e.remove(ctx, path)
		case Ydb_Scheme.Entry_COORDINATION_NODE:
			err = succeeded(e.call(ctx, &Ydb_Coordination.DropNodeRequest{Path: path}, &e.database))
		default:
			err = fmt.Errorf("%s is of type %s", path, child.GetType())
		}
		if err != nil {
			return err
		}
	}
	return succeeded(e.call(ctx, &Ydb_Scheme.RemoveDirectoryRequest{Path: directory}, &e.database))
}

type endpointEnvironment struct {
	*Endpoint
	path    string
	ctx     context.Context // of the streams
	cancel  context.CancelFunc
	events  chan Event
	peeked  *Event
	readers sync.WaitGroup
}

func (e *endpointEnvironment) Database() string        { return e.database }
func (e *endpointEnvironment) Directory() string       { return e.path }
func (e *endpointEnvironment) Patience() time.Duration { return e.patience }
func (e *endpointEnvironment) Hold()                   {}
func (e *endpointEnvironment) Release()                {}

// Check implements Environment. Of a server only that can be seen which its clients see.
func (e *endpointEnvironment) Check(context.Context) (disturbed bool, err error) { return false, nil }

// Call implements Environment.
func (e *endpointEnvironment) Call(ctx context.Context, request proto.Message,
	database *string) (*Ydb_Operations.Operation, error) {
	return e.call(ctx, request, database)
}

// Close implements Environment.
func (e *endpointEnvironment) Close(ctx context.Context) error {
	e.cancel()
	e.readers.Wait()
	return e.remove(ctx, e.path)
}

// Restart implements Environment.
func (e *endpointEnvironment) Restart(ctx context.Context) error {
	address, err := e.restart(ctx)
	if err != nil {
		return err
	}
	old := e.connection
	if err := e.dial(address); err != nil {
		return err
	}
	e.readers.Wait() // their streams have ended with the server
	return old.Close()
}

// Next implements Environment.
func (e *endpointEnvironment) Next(ctx context.Context) (Event, bool) {
	if event := e.peeked; event != nil {
		e.peeked = nil
		return *event, true
	}
	select {
	case event := <-e.events:
		return event, true
	default:
	}
	select {
	case event := <-e.events:
		return event, true
	case <-ctx.Done():
		return Event{}, false
	}
}

// Pass implements Environment.
func (e *endpointEnvironment) Pass(ctx context.Context, most time.Duration) time.Duration {
	began := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
		return most
	case event := <-e.events:
		e.peeked = &event
	case <-ctx.Done():
	}
	return time.Since(began)
}

// Connect implements Environment.
func (e *endpointEnvironment) Connect(_ context.Context, options StreamOptions) (Stream, error) {
	return e.connectOver(e.connection, options.User)
}

func (e *endpointEnvironment) connectOver(connection *grpc.ClientConn, user string) (Stream, error) {
	ctx, cancel := context.WithCancel(e.outgoing(asUser(e.ctx, user), &e.database))
	rpc, err := connection.NewStream(ctx, &Ydb_Coordination_V1.CoordinationService_ServiceDesc.Streams[0],
		Ydb_Coordination_V1.CoordinationService_Session_FullMethodName, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	s := &endpointStream{env: e, rpc: rpc, cancel: cancel}
	e.readers.Go(s.read)
	return s, nil
}

type endpointStream struct {
	env    *endpointEnvironment
	rpc    grpc.ClientStream
	cancel context.CancelFunc
}

// read hands on what comes until the stream has ended.
func (s *endpointStream) read() {
	defer s.cancel()
	for {
		m := &sessionReply{}
		err := s.rpc.RecvMsg(m)
		event := Event{Stream: s, Message: m}
		if err != nil {
			event = Event{Stream: s, Status: ending(err)}
		}
		select {
		case s.env.events <- event:
		case <-s.env.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func ending(err error) *status.Status {
	if errors.Is(err, io.EOF) {
		return status.New(codes.OK, "")
	}
	return status.Convert(err)
}

// Send implements Stream.
func (s *endpointStream) Send(message []byte) error {
	if err := s.rpc.SendMsg(message); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// CloseSend implements Stream.
func (s *endpointStream) CloseSend() error { return s.rpc.CloseSend() }

// Cancel implements Stream.
func (s *endpointStream) Cancel() { s.cancel() }

// rawCodec sends bytes as they are, so that a script can send what no client library would.
type rawCodec struct{}

// Name is that of the ordinary codec: the server must not notice a difference.
func (rawCodec) Name() string { return "proto" }

// Marshal takes bytes.
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

// Unmarshal fills in a protobuf message.
func (rawCodec) Unmarshal(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }
