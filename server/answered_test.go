package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
)

// localMethods are answered by what a server knows itself, also where it has no leader.
var localMethods = []string{
	"/Ydb.Discovery.V1.DiscoveryService/", "/Ydb.Operation.V1.OperationService/",
	"/Ydb.Monitoring.V1.MonitoringService/",
	"/" + adminpb.Cluster_ServiceDesc.ServiceName + "/Status",
	"/" + adminpb.Cluster_ServiceDesc.ServiceName + "/Limits", healthService,
	"/" + adminpb.Console_ServiceDesc.ServiceName + "/", adminpb.Inspect_Slow_FullMethodName,
}

// askedFor has valid values for the fields of any request, by their names.
var askedFor = map[protoreflect.Name]string{
	"path": "/local/dir", "coordination_node_path": "/local/dir", "resource_path": "resource",
	"database": "/local", "name": "somebody", "user": "somebody", "password": "secret",
	"member": "server-0", "peer_address": "127.0.0.1:1",
}

// hashing are the methods that hash a password before they ask the leader, one after the other for one caller.
var hashing = []string{"/" + adminpb.Users_ServiceDesc.ServiceName + "/Add",
	"/" + adminpb.Users_ServiceDesc.ServiceName + "/SetPassword"}

// bound limits a call's time.
type bound struct {
	name             string
	patience         time.Duration // of the server
	operationTimeout time.Duration // of the request, 0: none
	deadline         time.Duration // of the caller, 0: none
}

var bounds = []bound{
	{"neither", 20 * time.Millisecond, 0, 0},
	{"operation_timeout", time.Hour, 20 * time.Millisecond, 0},
	{"deadline", time.Hour, 0, 100 * time.Millisecond},
}

// servedMethods are all methods of a server, by their full names.
func servedMethods(t *testing.T, s *Server) map[string]protoreflect.MethodDescriptor {
	t.Helper()
	methods := make(map[string]protoreflect.MethodDescriptor)
	for name, service := range s.grpc.GetServiceInfo() {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range service.Methods {
			methods["/"+name+"/"+
				m.Name] = found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(m.Name))
		}
	}
	return methods
}

// requestFor fills a request. It returns nil if b does not exist for it.
func requestFor(method protoreflect.MethodDescriptor, b bound) proto.Message {
	request := dynamicpb.NewMessage(method.Input())
	fields := method.Input().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		value, known := askedFor[field.Name()]
		switch {
		case known && field.Kind() == protoreflect.StringKind && !field.IsList():
			request.Set(field, protoreflect.ValueOfString(value))
		case known && field.Kind() == protoreflect.BytesKind && !field.IsList():
			request.Set(field, protoreflect.ValueOfBytes([]byte(value)))
		case field.Name() == "kind" && method.Parent().FullName() == "coordd.admin.v1.Inspect":
			request.Set(field, protoreflect.ValueOfEnum(adminpb.PageRequest_SEMAPHORES.Number()))
		case field.Name() == "resource" && field.Kind() == protoreflect.MessageKind:
			resource := request.Mutable(field).Message()
			resource.Mutable(resource.Descriptor().Fields().ByName("hierarchical_drr"))
		case field.Name() == "required":
			request.Set(field, protoreflect.ValueOfUint64(1))
		}
	}
	if b.operationTimeout == 0 {
		return request
	}
	params := fields.ByName("operation_params")
	if params == nil {
		return nil
	}
	timeout := request.Mutable(params).Message()
	duration := timeout.Mutable(params.Message().Fields().ByName("operation_timeout")).Message()
	duration.Set(duration.Descriptor().Fields().ByName("nanos"),
		protoreflect.ValueOfInt32(int32(b.operationTimeout)))
	return request
}

// answerTo makes a call and returns the name of its status, of the operation where there is one. The call
// fails the test if it is not answered at all.
func answerTo(t *testing.T, conn *grpc.ClientConn, full string, method protoreflect.MethodDescriptor,
	b bound) string {
	t.Helper()
	request := requestFor(method, b)
	if request == nil {
		return ""
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	given := time.AfterFunc(time.Minute, cancel)
	defer given.Stop()
	if b.deadline > 0 {
		var cancelDeadline context.CancelFunc
		ctx, cancelDeadline = context.WithTimeout(ctx, b.deadline)
		defer cancelDeadline()
	}
	answer := dynamicpb.NewMessage(method.Output())
	err := firstAnswer(ctx, conn, full, method, request, answer)
	if status.Code(err) == codes.Canceled {
		t.Errorf("%s: not answered", full)
	}
	operation := method.Output().Fields().ByName("operation")
	if err != nil || operation == nil || operation.Message() == nil {
		return strings.ToUpper(status.Code(err).String())
	}
	result := answer.Get(operation).Message()
	number := result.Get(operation.Message().Fields().ByName("status")).Enum()
	return Ydb.StatusIds_StatusCode(number).String()
}

// firstAnswer makes a call, or takes the first message of a stream.
func firstAnswer(ctx context.Context, conn *grpc.ClientConn, full string,
	method protoreflect.MethodDescriptor, request, answer proto.Message) error {
	if !method.IsStreamingClient() && !method.IsStreamingServer() {
		return conn.Invoke(ctx, full, request, answer)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, full)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(answer)
}

// handlersEnd ends a server's listeners and waits until none of its calls is being served.
func handlersEnd(t *testing.T, s *Server) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.grpc.GracefulStop()
	}()
	eventually(t, "the calls to be gone", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

func isLocal(full string) bool {
	return slices.ContainsFunc(localMethods, func(prefix string) bool {
		return strings.HasPrefix(full, prefix)
	})
}

// localAnswers calls the local methods of a server without a leader. Nothing bounds the calls, so one that
// waits for a leader is not answered at all, and one that takes its time on a busy machine is.
func localAnswers(t *testing.T, s *Server, conn *grpc.ClientConn) {
	t.Helper()
	unbounded := bound{"nothing", time.Hour, 0, 0}
	s.calls.Patience = unbounded.patience
	for full, method := range servedMethods(t, s) {
		if isLocal(full) {
			if got := answerTo(t, conn, full, method, unbounded); got == "UNAVAILABLE" {
				t.Errorf("%s: got %s", full, got)
			}
		}
	}
}

// busyAnswers has an acquire's time run out at a server without a leader before that comes to asking for one.
func busyAnswers(t *testing.T, s *Server, conn *grpc.ClientConn) {
	t.Helper()
	const full = "/Ydb.RateLimiter.V1.RateLimiterService/AcquireResource"
	held, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	holdUp(s, held, release)
	<-held
	b := bound{"operation_timeout", time.Hour, 20 * time.Millisecond, 0}
	s.calls.Patience = b.patience
	if got := answerTo(t, conn, full, servedMethods(t, s)[full], b); got != "UNAVAILABLE" {
		t.Errorf("%s of a busy server: got %s", full, got)
	}
}

// answersInTime calls every method of a server that can reach nobody, all at once, bounded in every way, more
// often than its connection has room for calls, and ends its listeners. Each must be answered; where
// leaderless is true, those that are not local with UNAVAILABLE.
func answersInTime(t *testing.T, s *Server, conn *grpc.ClientConn, leaderless bool) {
	t.Helper()
	methods := servedMethods(t, s)
	if len(methods) < 25 || len(methods)*len(bounds) <= answeredRoom {
		t.Fatalf("%d methods", len(methods))
	}
	for _, b := range bounds {
		s.calls.Patience = b.patience
		var calls sync.WaitGroup
		check := func(full string, method protoreflect.MethodDescriptor) {
			got := answerTo(t, conn, full, method, b)
			late := b.deadline > 0 && got == "DEADLINEEXCEEDED" || // the answer was under way
				slices.Contains(hashing, full) && got == "RESOURCEEXHAUSTED" // its time ran out in the line for hashing
			if leaderless && got != "" && !late && !method.IsStreamingClient() && !isLocal(full) &&
				got != "UNAVAILABLE" {
				t.Errorf("%s, bounded by %s: got %s", full, b.name, got)
			}
		}
		for full, method := range methods {
			calls.Go(func() { check(full, method) })
		}
		calls.Wait()
	}
	handlersEnd(t, s)
}

// answeredRoom is the number of calls that a connection has room for in these tests: about as many as there are
// methods.
const answeredRoom = 40

func answeredCluster(t *testing.T) (*testCluster, *cuttable) {
	return startCuttableWith(t, func(config *Config) {
		config.Hardening.StreamsPerConnection = answeredRoom
		config.replaced.passwords = auth.NewCheapHasher(64) // one caller's are hashed one after the other
	})
}

// TestEveryMethodIsAnswered calls every method that a server has where nobody leads: it can reach no other,
// and knows that.
func TestEveryMethodIsAnswered(t *testing.T) {
	c, network := answeredCluster(t)
	_, left := c.leader()
	s := c.servers[left]
	network.cut(fmt.Sprint("server-", left))
	eventually(t, "the leader to be lost", func() bool {
		return !s.group.Led() && s.group.RelayConn() == nil
	})
	localAnswers(t, s, c.conns[left])
	busyAnswers(t, s, c.conns[left])
	answersInTime(t, s, c.conns[left], true)
}

// TestEveryMethodOfAMuteServerIsAnswered calls every method of a server that nothing reaches any more, and
// that does not know it: one that leads, and one that does not.
func TestEveryMethodOfAMuteServerIsAnswered(t *testing.T) {
	for _, leads := range []bool{true, false} {
		c, network := answeredCluster(t)
		leader, follower := c.leader()
		mute := follower
		if leads {
			mute = leader
		}
		network.cut(fmt.Sprint("server-", mute))
		answersInTime(t, c.servers[mute], c.conns[mute], false)
	}
}

// TestDeposedLeaderAnswersNoRead cuts the leader off and drops a node at the next one: from the
// acknowledgement on nobody hears of the node from the old leader.
func TestDeposedLeaderAnswersNoRead(t *testing.T) {
	c, network := startCuttable(t)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	service := func(i int) Ydb_Coordination_V1.CoordinationServiceClient {
		return Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[i])
	}
	network.cut(fmt.Sprint("server-", leader))
	dropped, err := service(follower).DropNode(t.Context(), &Ydb_Coordination.DropNodeRequest{Path: testNode})
	if err != nil || dropped.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("%v %v", dropped, err)
	}
	c.servers[leader].calls.Patience = 10 * time.Millisecond
	for asked, deposed := 0, false; asked < 20 || !deposed; asked++ {
		deposed = !c.servers[leader].group.Leads()
		got, err := service(leader).DescribeNode(t.Context(),
			&Ydb_Coordination.DescribeNodeRequest{Path: testNode})
		if err != nil || got.GetOperation().GetStatus() != Ydb.StatusIds_UNAVAILABLE {
			t.Fatalf("question %d: got %v, %v", asked, got, err)
		}
	}
}
