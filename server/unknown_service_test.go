package server

import (
	"fmt"
	"strings"
	"testing"

	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Cms_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Export_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_FederationDiscovery_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Import_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Operation_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Query_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Scripting_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Table_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Topic_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Table"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// TestUnknownMethodsFollowDescriptors calls every method of YDB that this server does not have, as the
// descriptors name them, and expects an Operation exactly where the answer has one.
func TestUnknownMethodsFollowDescriptors(t *testing.T) {
	s, conn := startTest(t, nil)
	holdNothing(s)
	served := s.grpc.GetServiceInfo()
	tried := 0
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if _, here := served[string(service.FullName())]; here ||
				!strings.HasPrefix(string(service.FullName()), "Ydb.") {
				continue
			}
			for j := range service.Methods().Len() {
				tried++
				checkUnknown(t, conn, service.Methods().Get(j))
			}
		}
		return true
	})
	if tried < 50 {
		t.Errorf("tried %d methods only", tried)
	}
}

func checkUnknown(t *testing.T, conn *grpc.ClientConn, method protoreflect.MethodDescriptor) {
	t.Helper()
	full := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	first := method.Output().Fields().ByNumber(1)
	holds := !method.IsStreamingClient() && !method.IsStreamingServer() &&
		first != nil && first.Message() != nil && first.Message().FullName() == "Ydb.Operations.Operation"
	var answer Ydb_Operations.GetOperationResponse
	err := conn.Invoke(t.Context(), full, new(emptypb.Empty), &answer)
	switch {
	case holds && (err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_UNSUPPORTED ||
		!answer.GetOperation().GetReady()):
		t.Errorf("%s: got %v, %v, want UNSUPPORTED", full, &answer, err)
	case !holds && status.Code(err) != codes.Unimplemented:
		t.Errorf("%s: got %v, %v, want UNIMPLEMENTED", full, &answer, err)
	}
}

func TestUnknownService(t *testing.T) {
	s, conn := startTest(t, nil)
	holdNothing(s)
	answer, err := Ydb_Table_V1.NewTableServiceClient(conn).CreateSession(t.Context(),
		new(Ydb_Table.CreateSessionRequest))
	if err != nil ||
		answer.GetOperation().GetIssues()[0].GetMessage() != "Ydb.Table.V1.TableService is not served here" {
		t.Errorf("got %v, %v", answer, err)
	}
	for _, method := range []string{"/a.B/C", "/Ydb.Table.V1.TableService/NoSuch",
		"/Ydb.Scheme.V1.SchemeService/NoSuch"} {
		if err := conn.Invoke(t.Context(), method, new(emptypb.Empty),
			new(emptypb.Empty)); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: got %v", method, err)
		}
	}
}

func TestOperationService(t *testing.T) {
	_, conn := startTest(t, nil)
	client := Ydb_Operation_V1.NewOperationServiceClient(conn)
	for id, want := range map[string]Ydb.StatusIds_StatusCode{
		"":                                         Ydb.StatusIds_BAD_REQUEST,
		"ydb://...":                                Ydb.StatusIds_BAD_REQUEST,
		"ydb://operation/1":                        Ydb.StatusIds_BAD_REQUEST,
		"ydb://operation/1?txid=42":                Ydb.StatusIds_BAD_REQUEST,
		"ydb://operation/1?txid=aaa&sstid=bbbb":    Ydb.StatusIds_BAD_REQUEST,
		"ydb://operation/x?txid=42&sstid=7":        Ydb.StatusIds_BAD_REQUEST,
		"http://operation/1?txid=42&sstid=7":       Ydb.StatusIds_BAD_REQUEST,
		"ydb://operation/1?txid=42&sstid=7":        Ydb.StatusIds_NOT_FOUND,
		"ydb://export/6?id=281474976788395&kind=x": Ydb.StatusIds_NOT_FOUND,
	} {
		got, err := client.GetOperation(t.Context(), &Ydb_Operations.GetOperationRequest{Id: id})
		if err != nil || got.GetOperation().GetStatus() != want || !got.GetOperation().GetReady() {
			t.Errorf("get %q: %v, %v", id, got, err)
		}
		cancelled, err := client.CancelOperation(t.Context(), &Ydb_Operations.CancelOperationRequest{Id: id})
		if err != nil || cancelled.GetStatus() != want {
			t.Errorf("cancel %q: %v, %v", id, cancelled, err)
		}
		forgotten, err := client.ForgetOperation(t.Context(), &Ydb_Operations.ForgetOperationRequest{Id: id})
		if err != nil || forgotten.GetStatus() != want {
			t.Errorf("forget %q: %v, %v", id, forgotten, err)
		}
	}
	list, err := client.ListOperations(t.Context(), &Ydb_Operations.ListOperationsRequest{Kind: "export"})
	if err != nil || list.GetStatus() != Ydb.StatusIds_SUCCESS || len(list.GetOperations()) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

func TestMonitoringService(t *testing.T) {
	s, conn := startTest(t, nil)
	client := Ydb_Monitoring_V1.NewMonitoringServiceClient(conn)
	checks := []func(*Ydb_Operations.OperationParams) (*Ydb_Operations.Operation, error){
		func(p *Ydb_Operations.OperationParams) (*Ydb_Operations.Operation, error) {
			answer, err := client.SelfCheck(t.Context(), &Ydb_Monitoring.SelfCheckRequest{OperationParams: p})
			return answer.GetOperation(), err
		},
		func(p *Ydb_Operations.OperationParams) (*Ydb_Operations.Operation, error) {
			answer, err := client.NodeCheck(t.Context(), &Ydb_Monitoring.NodeCheckRequest{OperationParams: p})
			return answer.GetOperation(), err
		},
	}
	for i, check := range checks {
		op, err := check(nil)
		var result Ydb_Monitoring.SelfCheckResult
		if err != nil || op.GetResult().UnmarshalTo(&result) != nil ||
			result.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_GOOD {
			t.Errorf("check %d: %v, %v", i, op, err)
		}
	}
	release, held := make(chan struct{}), make(chan struct{})
	holdUp(s, held, release)
	<-held
	for i, check := range checks {
		op, err := check(&Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(1)})
		if err != nil || op.GetStatus() != Ydb.StatusIds_TIMEOUT {
			t.Errorf("check %d of a server that hangs: %v, %v", i, op, err)
		}
	}
	close(release)
}

// TestSelfCheckOfCluster stops one server after the other.
func TestSelfCheckOfCluster(t *testing.T) {
	c := startCluster(t, 3)
	// says waits until a running server gives that answer: the leader may change at any time.
	says := func(want Ydb_Monitoring.SelfCheck_Result) {
		t.Helper()
		eventually(t, fmt.Sprint("a self-check that says ", want), func() bool {
			for i := range c.servers {
				if c.servers[i] != nil && c.selfCheck(i) == want {
					return true
				}
			}
			return false
		})
	}
	says(Ydb_Monitoring.SelfCheck_GOOD)
	c.stop(0)
	says(Ydb_Monitoring.SelfCheck_DEGRADED)
	c.stop(1)
	says(Ydb_Monitoring.SelfCheck_EMERGENCY)
}

func (c *testCluster) selfCheck(i int) Ydb_Monitoring.SelfCheck_Result {
	c.t.Helper()
	answer, err := Ydb_Monitoring_V1.NewMonitoringServiceClient(c.conns[i]).SelfCheck(c.t.Context(),
		new(Ydb_Monitoring.SelfCheckRequest))
	var result Ydb_Monitoring.SelfCheckResult
	if err != nil || answer.GetOperation().GetResult().UnmarshalTo(&result) != nil {
		c.t.Fatalf("server %d: %v, %v", i, answer, err)
	}
	return result.GetSelfCheckResult()
}
