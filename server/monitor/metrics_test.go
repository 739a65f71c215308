package monitor

import (
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/server"
)

var write = flag.Bool("write", false, "write the table of docs/monitoring/metrics.md anew")

// docs is the folder of what operators get, seen from this package.
const docs = "../../docs/monitoring/"

// all is the table with what is not made of figures.
func all() []metric { return append(slices.Clone(metrics), buildInfo) }

// table is the list of metrics for people.
func table() string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range all() {
		labels := "–"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	return b.String()
}

// TestMetricsPage wants docs/monitoring/metrics.md to have all metrics and no others.
func TestMetricsPage(t *testing.T) {
	const begin, end = "<!-- metrics -->\n", "<!-- end -->"
	content, err := os.ReadFile(docs + "metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	from, to := strings.Index(page, begin)+len(begin), strings.Index(page, end)
	if from < len(begin) || to < from {
		t.Fatal("metrics.md has no place for the table")
	}
	if *write {
		if err := os.WriteFile(docs+"metrics.md", []byte(page[:from]+table()+page[to:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page[from:to] != table() {
		t.Error("the table of metrics.md is not that of the code: go test ./server/monitor -run TestMetricsPage -write")
	}
	for _, name := range regexp.MustCompile(`coordd_\w+`).FindAllString(page[:from]+page[to:], -1) {
		if !known(name) {
			t.Errorf("metrics.md names %s, which is not there", name)
		}
	}
}

// known reports whether queries may name it.
func known(name string) bool {
	return slices.ContainsFunc(all(), func(m metric) bool {
		if m.kind == histogramKind {
			return slices.Contains([]string{m.name + "_bucket", m.name + "_sum", m.name + "_count"}, name)
		}
		return name == m.name
	})
}

// TestNames wants the conventions that promlint does not see.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range all() {
		if !regexp.MustCompile(`^coordd_[a-z_]+$`).MatchString(m.name) || seen[m.name] {
			t.Errorf("%s: no name for a metric, or there twice", m.name)
		}
		seen[m.name] = true
		if (m.kind == counter) != strings.HasSuffix(m.name, "_total") {
			t.Errorf("%s is a %s", m.name, m.kind)
		}
		if m.kind == histogramKind && !strings.HasSuffix(m.name, "_seconds") {
			t.Errorf("%s is a histogram without a unit", m.name)
		}
		if m.help == "" || strings.ContainsAny(m.help, "|\n") {
			t.Errorf("%s: help %q", m.name, m.help)
		}
	}
}

// serve runs a server that has been asked for some things, and returns what it shows.
func serve(t *testing.T, o Options) (s *server.Server, conn *grpc.ClientConn) {
	t.Helper()
	o.Version = "1.2.3"
	s, err := server.Start(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local",
		InMemory: true, HTTP: server.HTTP{Listen: "127.0.0.1:0",
			Metrics: func(s *server.Server) http.Handler { return Metrics(s, o) }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(t.Context()) })
	conn, err = grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return s, conn
}

// scrape returns the text that Prometheus would get.
func scrape(t *testing.T, s *server.Server) string {
	t.Helper()
	answer, err := http.Get("http://" + s.HTTPAddr().String() + server.MetricsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", answer.Status, text, err)
	}
	return string(text)
}

type sessionRequest = Ydb_Coordination.SessionRequest

// TestScrape does a little of everything and wants it in the figures.
func TestScrape(t *testing.T) {
	s, conn := serve(t, Options{})
	nodes := Ydb_Coordination_V1.NewCoordinationServiceClient(conn)
	const path = "/local/chosen-by-a-client"
	for _, path := range []string{path, "/elsewhere/chosen"} {
		if _, err := nodes.CreateNode(t.Context(),
			&Ydb_Coordination.CreateNodeRequest{Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Invoke(t.Context(), "/chosen.by.a.Client/Method", new(Ydb_Coordination.CreateNodeRequest),
		new(Ydb_Coordination.CreateNodeResponse)); err == nil {
		t.Error("an unknown method was served")
	}
	acquire := func(stream Ydb_Coordination_V1.CoordinationService_SessionClient) {
		t.Helper()
		if err := stream.Send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
			AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{Name: "chosen-lock",
				Count: math.MaxUint64, Ephemeral: true, TimeoutMillis: 60_000}}}); err != nil {
			t.Fatal(err)
		}
	}
	// until reads a stream up to a message.
	until := func(stream Ydb_Coordination_V1.CoordinationService_SessionClient,
		reached func(*Ydb_Coordination.SessionResponse) bool) {
		t.Helper()
		for {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if ping := m.GetPing(); ping != nil {
				if err := stream.Send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
					Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}}); err != nil {
					t.Fatal(err)
				}
			}
			if reached(m) {
				return
			}
		}
	}
	open := func() Ydb_Coordination_V1.CoordinationService_SessionClient {
		t.Helper()
		stream, err := nodes.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
			SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: path, TimeoutMillis: 600_000,
				Description: "chosen-description"}}}); err != nil {
			t.Fatal(err)
		}
		until(stream, func(m *Ydb_Coordination.SessionResponse) bool { return m.GetSessionStarted() != nil })
		return stream
	}
	granted := func(m *Ydb_Coordination.SessionResponse) bool {
		return m.GetAcquireSemaphoreResult().GetAcquired()
	}
	first, second := open(), open()
	acquire(first)
	until(first, granted)
	if err := second.Send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{Name: "chosen-lock",
			WatchOwners: true}}}); err != nil {
		t.Fatal(err)
	}
	until(second,
		func(m *Ydb_Coordination.SessionResponse) bool { return m.GetDescribeSemaphoreResult() != nil })
	acquire(second)
	until(second,
		func(m *Ydb_Coordination.SessionResponse) bool { return m.GetAcquireSemaphorePending() != nil })
	text := scrape(t, s)
	want := func(text string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line) {
				name, _, _ := strings.Cut(line, "{")
				t.Errorf("no line %q among %q", line,
					regexp.MustCompile(`\n`+name+".*").FindAllString(text, 20))
			}
		}
	}
	const method = "/Ydb.Coordination.V1.CoordinationService/CreateNode"
	want(text, "coordd_ready 1\n", "coordd_sessions 2\n", "coordd_semaphores 1\n",
		"coordd_semaphore_owners 1\n", "coordd_semaphore_waiters 1\n", "coordd_watches 1\n",
		"coordd_streams 2\n", "coordd_nodes 1\n", "coordd_connections 1\n", "coordd_leads 1\n",
		"coordd_raft_lag_entries 0\n",
		`coordd_requests_total{method="`+method+`",status="SUCCESS"} 1`,
		`coordd_requests_total{method="`+method+`",status="SCHEME_ERROR"} 1`,
		`coordd_requests_total{method="unknown",status="Unimplemented"} 1`,
		`coordd_request_duration_seconds_count{method="`+method+`"} 2`,
		`coordd_session_requests_total{kind="acquire",status="SUCCESS"} 1`,
		`coordd_session_requests_total{kind="start",status="SUCCESS"} 2`,
		`coordd_acquire_wait_seconds_count{queued="false"} 1`,
		`coordd_acquire_wait_seconds_count{queued="true"} 0`,
		`coordd_build_info{version="1.2.3"} 1`, `coordd_issue{kind="NO_LEADER"} 0`, "go_goroutines ",
		"process_open_fds ")
	if err := first.Send(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{Name: "chosen-lock"}}}); err != nil {
		t.Fatal(err)
	}
	has, told := false, false
	until(second, func(m *Ydb_Coordination.SessionResponse) bool {
		has, told = has || granted(m), told || m.GetDescribeSemaphoreChanged() != nil
		return has && told
	})
	text = scrape(t, s)
	want(text, `coordd_acquire_wait_seconds_count{queued="true"} 1`, "coordd_watches 0\n",
		"coordd_session_changes_total 1\n", "coordd_semaphore_waiters 0\n")
	if at := strings.Index(text, "chosen"); at >= 0 {
		t.Errorf("a client has chosen what is shown: %.100s", text[at-50:])
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "coordd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestRegistered wants the library to find every metric that the table has, and to take all of them.
func TestRegistered(t *testing.T) {
	s, _ := serve(t, Options{})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(func() *shown { return &shown{Figures: s.Figures()} }, "x"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if !slices.ContainsFunc(all(), func(m metric) bool { return m.name == family.GetName() }) {
			t.Errorf("%s is not in the table", family.GetName())
		}
	}
}

// TestScrapeReadsTheFiguresOnce wants all metrics of a scrape to come of one look at the server.
func TestScrapeReadsTheFiguresOnce(t *testing.T) {
	s, _ := serve(t, Options{})
	looks := 0
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(func() *shown { looks++; return &shown{Figures: s.Figures()} }, "x"))
	for scrape := range 3 {
		if found, err := registry.Gather(); err != nil || len(found) < len(metrics)/2 || looks != scrape+1 {
			t.Errorf("%d metrics, %d looks, %v", len(found), looks, err)
		}
	}
}
