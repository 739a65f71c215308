package monitor

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	metricName = regexp.MustCompile(`\b(coordd|process|go)_\w+`)
	// quoted matches strings, which may hold words that are no metrics, in queries and beside them.
	quoted = regexp.MustCompile(`"[^"]*"`)
	// alertQuery is a line of alerts.yaml.
	alertQuery = regexp.MustCompile(`(?m)^ +expr: '(.*)'$`)
)

// checkQuery wants a query to name metrics, and none that is not there. Those of Prometheus' library are left
// to it.
func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	names := metricName.FindAllString(quoted.ReplaceAllString(query, ""), -1)
	if len(names) == 0 && !strings.HasPrefix(query, "up{") {
		t.Errorf("%s asks for no metric: %s", where, query)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "coordd_") && !known(name) {
			t.Errorf("%s asks for %s, which is not there: %s", where, name, query)
		}
	}
	if strings.Count(query, "(") != strings.Count(query, ")") ||
		strings.Count(query, "{") != strings.Count(query, "}") {
		t.Errorf("%s: brackets of %s", where, query)
	}
}

func TestDashboard(t *testing.T) {
	content, err := os.ReadFile(docs + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("panel %q shows nothing", panel.Title)
		}
		if panel.Description == "" {
			t.Errorf("panel %q has no description", panel.Title)
		}
		for _, target := range panel.Targets {
			queries++
			checkQuery(t, panel.Title, target.Expr)
		}
	}
	if queries == 0 {
		t.Error("the dashboard shows nothing")
	}
}

func TestAlerts(t *testing.T) {
	content, err := os.ReadFile(docs + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := strings.Count(string(content), "- alert: ")
	queries := alertQuery.FindAllStringSubmatch(string(content), -1)
	if alerts == 0 || len(queries) != alerts {
		t.Fatalf("%d alerts, %d queries", alerts, len(queries))
	}
	for _, q := range queries {
		checkQuery(t, "alerts.yaml", strings.ReplaceAll(q[1], "''", "'"))
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED: the rules' grammar, since there is no promtool (Debian's package prometheus has it)")
	}
	for _, command := range [][]string{{"check", "rules", docs + "alerts.yaml"},
		{"test", "rules", "testdata/alerts_test.yaml"}} {
		if output, err := exec.Command(promtool, command...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	}
}
