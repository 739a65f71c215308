package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/statelimit"
)

// TestJSON has the whole json of the commands that look at a server and its files.
func TestJSON(t *testing.T) {
	limits := &adminpb.LimitsStatus{ServerName: "a", StateLimitBytes: 4 << 20, StateUsedBytes: 1 << 20,
		NodeLimitBytes: 1 << 30, ReserveBytes: 256 << 10, ConfiguredBytes: 4 << 20, MemoryBytes: 8 << 30,
		MemorySource: "memory of the machine"}
	status := &adminpb.ClusterStatus{Cluster: "c1", ServerName: "a", ServerId: "01", Leader: "01", Term: 2, Commit: 9,
		Applied: 8, CaughtUp: true, FreeBytes: 5, ReserveBytes: 4, LeaderAnswered: true, FormatVersion: 3,
		Issues: []string{"b is silent"}, Members: []*adminpb.ClusterMember{
			{Id: "02", Name: "b", PeerAddress: "b:1", ClientAddress: "b:2", Match: 7, Lag: 2, Version: 3,
				Role: adminpb.ClusterMember_ROLE_LEARNER, Connected: true},
			{Id: "01", Name: "a", PeerAddress: "a:1", ClientAddress: "a:2", Match: 9, Version: 3,
				Role: adminpb.ClusterMember_ROLE_LEADER, Active: true, Connected: true}}}
	report := &datadir.Report{Cluster: 1, Member: 2, CheckpointIndex: 3, Rows: 4, FirstIndex: 4, LastIndex: 5,
		LastTerm: 6, Members: raftstore.Members{{ID: 2, Name: "a", PeerAddress: "a:1"},
			{ID: 3, Name: "b", PeerAddress: "b:1", Learner: true}},
		Removed: raftstore.Members{{ID: 4, PeerAddress: "d:1"}},
		Files:   []datadir.FileReport{{Name: "checkpoint/manifest", Bytes: 10, Rows: 4}}}
	condemned := &datadir.Report{Cluster: 1, Member: 2, Condemned: "it diverged"}
	limitsText := `{"server":"a","state_limit_bytes":4194304,"state_unlimited":false,"state_used_bytes":1048576,` +
		`"state_headroom_bytes":3145728,"state_reserve_bytes":262144,"node_limit_bytes":1073741824,` +
		`"server_state_limit_bytes":4194304,"server_memory_bytes":8589934592,` +
		`"server_memory_source":"memory of the machine"}`
	for _, test := range []struct {
		shown any
		want  string
	}{
		{showLimits(limits), limitsText},
		{showLimits(&adminpb.LimitsStatus{StateLimitBytes: statelimit.Unlimited}),
			`{"server":"","state_limit_bytes":null,"state_unlimited":true,"state_used_bytes":0,` +
				`"state_headroom_bytes":null,"state_reserve_bytes":0,"node_limit_bytes":0,` +
				`"server_state_limit_bytes":0,"server_memory_bytes":0,"server_memory_source":""}`},
		{showStatus(status, limits), `{"cluster":"c1","server":"a","server_id":"01","leader":"01","term":2,` +
			`"commit":9,"applied":8,"caught_up":true,"free_bytes":5,"reserve_bytes":4,"disk_full":false,` +
			`"leader_answered":true,"format_version":3,"issues":["b is silent"],"limits":` + limitsText +
			`,"members":[{"id":"01","name":"a","peer_address":"a:1","client_address":"a:2","role":"leader",` +
			`"match":9,"lag":0,"active":true,"connected":true,"version":3},{"id":"02","name":"b",` +
			`"peer_address":"b:1","client_address":"b:2","role":"learner","match":7,"lag":2,"active":false,` +
			`"connected":true,"version":3}]}`},
		{showReport(report, errors.New("checkpoint/manifest: row 5")), `{"cluster":"0000000000000001",` +
			`"server_id":"0000000000000002","checkpoint_index":3,"checkpoint_rows":4,"first_index":4,` +
			`"last_index":5,"last_term":6,"members":[{"id":"0000000000000002","name":"a","peer_address":"a:1",` +
			`"role":"voter"},{"id":"0000000000000003","name":"b","peer_address":"b:1","role":"learner"}],` +
			`"removed":[{"id":"0000000000000004","name":"","peer_address":"d:1","role":"voter"}],` +
			`"files":[{"name":"checkpoint/manifest","bytes":10,"first_index":0,"last_index":0,"rows":4,` +
			`"torn_bytes":0}],` +
			`"damage":"checkpoint/manifest: row 5"}`},
		{showReport(condemned, &datadir.CondemnedError{}), `{"cluster":"0000000000000001",` +
			`"server_id":"0000000000000002","checkpoint_index":0,"checkpoint_rows":0,"first_index":0,` +
			`"last_index":0,"last_term":0,"members":[],"removed":[],"files":[],"condemned":"it diverged"}`},
	} {
		var got strings.Builder
		out := outputFlag{form: formLines}
		if err := out.one(&got, test.shown, nil); err != nil || got.String() != test.want+"\n" {
			t.Errorf("got %s, %v\nwant %s", got.String(), err, test.want)
		}
	}
}

func TestVersionJSON(t *testing.T) {
	r := newRun(nil)
	want := fmt.Sprintf("{\n  \"version\": \"development\",\n  \"go\": %q,\n  \"os\": %q,\n  \"arch\": %q\n}\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if code := r.run([]string{"version", "-o", "json"}); code != exit.OK || r.out.String() != want {
		t.Errorf("exit code %d, %s\nwant %s", code, r.out.String(), want)
	}
}

// TestHealthJSON wants an answer on stdout also from a server that does not serve.
func TestHealthJSON(t *testing.T) {
	up := []grpc_health_v1.HealthCheckResponse_ServingStatus{servingStatus}
	for _, test := range []struct {
		patient   *patient
		code      exit.Code
		want, log string
	}{
		{&patient{health: up, result: checked(Ydb_Monitoring.SelfCheck_GOOD)}, exit.OK,
			`{"serving":true,"issues":[]}`, ""},
		{&patient{health: up, result: checked(Ydb_Monitoring.SelfCheck_DEGRADED, "b is silent", "c is silent")},
			exit.OK, `{"serving":true,"issues":["b is silent","c is silent"]}`, ""},
		{&patient{health: up, result: checked(Ydb_Monitoring.SelfCheck_EMERGENCY, "no leader", "b is silent")},
			exit.NotServing, `{"serving":false,"issues":["no leader","b is silent"]}`,
			"coordd: not serving: no leader; b is silent\n"},
		{&patient{health: up, resultErr: errors.New("broken")}, exit.NotServing,
			`{"serving":false,"issues":["self-check: broken"]}`, "coordd: not serving: self-check: broken\n"},
	} {
		r := newRun(nil)
		endpoint := test.patient.receives(t)
		code := r.run([]string{"health", "-o", "jsonl", "--timeout=30s", "--endpoint", endpoint})
		if code != test.code || r.out.String() != test.want+"\n" || r.log.String() != test.log {
			t.Errorf("exit code %d, %s, %q\nwant %d, %s, %q", code, r.out.String(), r.log.String(), test.code,
				test.want, test.log)
		}
	}
}

// TestCheckJSON wants a report and the damage on stdout, and the damage as an error as well.
func TestCheckJSON(t *testing.T) {
	r := newRun(nil, "COORDD_DATA_DIR=/d")
	r.check = func(string, *tty.Progress) (*datadir.Report, error) {
		return &datadir.Report{Cluster: 1}, exit.With(exit.Storage, errors.New("entry 2: bad checksum"))
	}
	code := r.run([]string{"check", "-o", "jsonl"})
	if code != exit.Storage || !strings.Contains(r.out.String(), `"damage":"entry 2: bad checksum"`) ||
		!strings.Contains(r.log.String(), "entry 2: bad checksum") {
		t.Errorf("exit code %d, %s, %q", code, r.out.String(), r.log.String())
	}
}

// TestUnknownForms wants the form of the output looked at before a server or a directory is.
func TestUnknownForms(t *testing.T) {
	for _, command := range []string{"cluster status", "cluster limits", "user list", "health", "version", "check"} {
		r := newRun(nil)
		code := r.run(append(strings.Fields(command), "-o", "yaml"))
		const want = `coordd: flag --output: value "yaml" is not allowed: want table, json or jsonl`
		if code != exit.Usage || !strings.HasPrefix(r.log.String(), want) {
			t.Errorf("%s: exit code %d, %q", command, code, r.log.String())
		}
	}
}
