package main

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Issue"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/coordd/coordd/internal/exit"
)

const (
	servingStatus    = grpc_health_v1.HealthCheckResponse_SERVING
	notServingStatus = grpc_health_v1.HealthCheckResponse_NOT_SERVING
)

// patient answers the questions of `coordd health` as a test says.
type patient struct {
	grpc_health_v1.UnimplementedHealthServer
	Ydb_Monitoring_V1.UnimplementedMonitoringServiceServer
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer

	// one answer after the other, the last one again and again
	health    []grpc_health_v1.HealthCheckResponse_ServingStatus
	healthErr error
	hang      bool // the health check gets no answer
	result    *Ydb_Monitoring.SelfCheckResult
	operation *Ydb_Operations.Operation // in place of result
	resultErr error

	mu    sync.Mutex
	asked int // health checks
}

func (p *patient) Check(ctx context.Context,
	_ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if p.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.healthErr != nil {
		return nil, p.healthErr
	}
	return &grpc_health_v1.HealthCheckResponse{Status: p.health[min(p.asked, len(p.health))-1]}, nil
}

func (p *patient) SelfCheck(context.Context,
	*Ydb_Monitoring.SelfCheckRequest) (*Ydb_Monitoring.SelfCheckResponse, error) {
	if p.resultErr != nil {
		return nil, p.resultErr
	}
	if p.operation != nil {
		return &Ydb_Monitoring.SelfCheckResponse{Operation: p.operation}, nil
	}
	result, err := anypb.New(p.result)
	return &Ydb_Monitoring.SelfCheckResponse{Operation: &Ydb_Operations.Operation{Ready: true,
		Status: Ydb.StatusIds_SUCCESS, Result: result}}, err
}

// Session answers nothing.
func (p *patient) Session(stream Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	<-stream.Context().Done()
	return nil
}

// receives starts a server of the patient's and returns the connection string.
func (p *patient) receives(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, p)
	Ydb_Monitoring_V1.RegisterMonitoringServiceServer(server, p)
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(server, p)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return "grpc://" + listener.Addr().String() + "/local"
}

func checked(result Ydb_Monitoring.SelfCheck_Result, messages ...string) *Ydb_Monitoring.SelfCheckResult {
	check := &Ydb_Monitoring.SelfCheckResult{SelfCheckResult: result}
	for _, message := range messages {
		check.IssueLog = append(check.IssueLog, &Ydb_Monitoring.IssueLog{Message: message})
	}
	return check
}

// TestSilentServer: a command whose session gets no answer says why the server does not serve, if the server does.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	down := &patient{result: checked(Ydb_Monitoring.SelfCheck_EMERGENCY, "no leader: 1 of 3"),
		health: []grpc_health_v1.HealthCheckResponse_ServingStatus{notServingStatus}}
	busy := &patient{result: checked(Ydb_Monitoring.SelfCheck_GOOD),
		health: []grpc_health_v1.HealthCheckResponse_ServingStatus{servingStatus}}
	for want, p := range map[string]*patient{"the server is not serving: no leader: 1 of 3": down,
		"the server does not answer": busy} {
		coordd(t, exit.NotRun, []string{"lock", "app", "x", "-n", "--keep", "--session-timeout", "3s",
			"--endpoint", p.receives(t)}, want)
	}
}

// TestHealth is the table of what a server may answer.
func TestHealth(t *testing.T) {
	up, down := []grpc_health_v1.HealthCheckResponse_ServingStatus{servingStatus},
		[]grpc_health_v1.HealthCheckResponse_ServingStatus{notServingStatus}
	tests := []struct {
		name    string
		patient *patient
		code    exit.Code
		want    string // of stdout, or of stderr behind the program's name
	}{
		{"well", &patient{health: up, result: checked(Ydb_Monitoring.SelfCheck_GOOD)}, exit.OK, "serving"},
		{"degraded", &patient{health: up, result: checked(Ydb_Monitoring.SelfCheck_DEGRADED)}, exit.OK,
			"serving: degraded"},
		{"degraded, with a reason",
			&patient{health: up, result: checked(Ydb_Monitoring.SelfCheck_DEGRADED, "b is\nsilent", "",
				"c is silent")}, exit.OK, "serving: b is silent; c is silent"},
		{"says nothing of itself", &patient{health: up,
			result: checked(Ydb_Monitoring.SelfCheck_UNSPECIFIED)}, exit.OK, "serving"},
		{"emergency", &patient{health: up, result: checked(Ydb_Monitoring.SelfCheck_EMERGENCY, "no leader")},
			exit.NotServing, "not serving: no leader"},
		{"emergency without a reason", &patient{health: up,
			result: checked(Ydb_Monitoring.SelfCheck_EMERGENCY)}, exit.NotServing, "not serving: emergency"},
		{"down", &patient{health: down, result: checked(Ydb_Monitoring.SelfCheck_EMERGENCY, "no leader")},
			exit.NotServing, "not serving: no leader"},
		{"down although well", &patient{health: down, result: checked(Ydb_Monitoring.SelfCheck_GOOD)},
			exit.NotServing, "not serving: good"},
		{"well, token wanted", &patient{health: up,
			resultErr: status.Error(codes.Unauthenticated, "no token")}, exit.OK, "serving"},
		{"well, right wanted", &patient{health: up,
			operation: &Ydb_Operations.Operation{Status: Ydb.StatusIds_UNAUTHORIZED}}, exit.OK, "serving"},
		{"down, token wanted", &patient{health: down,
			resultErr: status.Error(codes.Unauthenticated, "no token")}, exit.NotServing,
			"not serving: the server says so, without a reason"},
		{"no self-check", &patient{health: up, resultErr: status.Error(codes.Unimplemented, "none")}, exit.OK,
			"serving"},
		{"self-check fails", &patient{health: up,
			operation: &Ydb_Operations.Operation{Status: Ydb.StatusIds_UNAVAILABLE,
				Issues: []*Ydb_Issue.IssueMessage{{Message: "too slow"}}}}, exit.NotServing,
			"not serving: self-check: UNAVAILABLE: too slow"},
		{"no health service", &patient{healthErr: status.Error(codes.Unimplemented, "none")}, exit.NotServing,
			"not serving: the server has no health service"},
		{"health service fails", &patient{healthErr: status.Error(codes.Internal, "broken")}, exit.NotServing,
			"not serving: broken"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			asks := newRun(nil)
			asks.begin("health", "--timeout=30s", "--endpoint", test.patient.receives(t))
			if code := asks.wait(t); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			want, wantLog := test.want+"\n", ""
			if test.code != exit.OK {
				want, wantLog = "", "coordd: "+test.want+"\n"
			}
			if asks.out.String() != want || asks.log.String() != wantLog {
				t.Errorf("stdout %q and stderr %q, want %q and %q", asks.out.String(), asks.log.String(),
					want, wantLog)
			}
		})
	}
}

func TestHealthOfASilentServer(t *testing.T) {
	asks := newRun(nil)
	asks.begin("health", "--timeout=50ms", "--endpoint", (&patient{hang: true}).receives(t))
	if code := asks.wait(t); code != exit.NotServing ||
		asks.log.String() != "coordd: not serving: no answer in time\n" {
		t.Errorf("exit code %d, %q", code, asks.log.String())
	}
}

func TestHealthOfNobody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	asks := newRun(nil)
	asks.begin("health", "--timeout=30s", "--endpoint=grpc://"+listener.Addr().String()+"/local")
	if code := asks.wait(t); code != exit.NotServing ||
		!strings.HasPrefix(asks.log.String(), "coordd: not serving: no server at 127.0.0.1:") {
		t.Errorf("exit code %d, %q", code, asks.log.String())
	}
}

// TestHealthWaits wants --wait to ask until the server serves.
func TestHealthWaits(t *testing.T) {
	late := &patient{result: checked(Ydb_Monitoring.SelfCheck_GOOD),
		health: []grpc_health_v1.HealthCheckResponse_ServingStatus{notServingStatus, notServingStatus,
			servingStatus}}
	asks := newRun(nil)
	asks.begin("health", "--timeout=30s", "--wait=1h", "--endpoint", late.receives(t))
	if code := asks.wait(t); code != exit.OK || asks.out.String() != "serving\n" || asks.log.String() != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, asks.out.String(), asks.log.String())
	}
	if late.asked != 3 {
		t.Errorf("asked %d times, want 3", late.asked)
	}
}

// TestHealthWaitsInVain wants the last reason when the time is over.
func TestHealthWaitsInVain(t *testing.T) {
	never := &patient{result: checked(Ydb_Monitoring.SelfCheck_EMERGENCY, "no leader"),
		health: []grpc_health_v1.HealthCheckResponse_ServingStatus{notServingStatus}}
	asks := newRun(nil)
	asks.begin("health", "--timeout=30s", "--wait=150ms", "--endpoint", never.receives(t))
	if code := asks.wait(t); code != exit.NotServing ||
		asks.log.String() != "coordd: not serving: no leader\n" {
		t.Errorf("exit code %d, %q", code, asks.log.String())
	}
}

// TestLocalEndpoint wants `coordd health` to look where `coordd serve` listens.
func TestLocalEndpoint(t *testing.T) {
	tests := []struct {
		environment string
		want        string
	}{
		{"", "grpc://127.0.0.1:2136/local"},
		{"COORDD_LISTEN=:2200", "grpc://127.0.0.1:2200/local"},
		{"COORDD_LISTEN=0.0.0.0:2200", "grpc://127.0.0.1:2200/local"},
		{"COORDD_LISTEN=[::]:2200", "grpc://[::1]:2200/local"},
		{"COORDD_LISTEN=10.0.0.1:2200 COORDD_DATABASE=/prod/x", "grpc://10.0.0.1:2200/prod/x"},
		{"COORDD_CONFIG=" + writeConfig(t, "listen: 127.0.0.2:99\n"), "grpc://127.0.0.2:99/local"},
	}
	for _, test := range tests {
		got, err := localEndpoint(new(connectionFlags).served(), strings.Fields(test.environment))
		if err != nil || got != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.environment, got, err, test.want)
		}
	}
	for _, environment := range []string{"COORDD_LISTEN=nonsense", "COORDD_LISTEN=:0",
		"COORDD_CONFIG=/nowhere/c"} {
		if got, err := localEndpoint(new(connectionFlags).served(), []string{environment}); err == nil {
			t.Errorf("%s: got %q, want an error", environment, got)
		}
	}
}

// TestHealthNeedsNoToken asks the real server that wants tokens, over TLS and without one.
func TestHealthNeedsNoToken(t *testing.T) {
	s := startSecured(t)
	if code, output := s.run("", "health", "--timeout=30s", "--endpoint", s.tls, "--ca-file",
		s.path("ca.pem")); code != 0 || output != "serving\n" {
		t.Errorf("exit code %d, %q", code, output)
	}
	if code, output := s.run("", "health", "--timeout=30s", "--endpoint",
		s.tls); code != int(exit.NotServing) || !strings.Contains(output, "certificate") {
		t.Errorf("without the authority: exit code %d, %q", code, output)
	}
}
