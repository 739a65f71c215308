package conformance

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func parsed(t *testing.T, name, text string) *Script {
	t.Helper()
	script, err := Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

func fourResults(t *testing.T) []Result {
	t.Helper()
	one := parsed(t, "watch/one",
		"# One.\n# rule: coordination §2.10 x: y\n# differs: A little.\n\ns1: start\n")
	two := parsed(t, "stop/two", "# Two.\n# rule: coordination §2.9 x\n# needs: wire\n\ns1: start\n")
	return []Result{
		{Script: one, Took: time.Second},
		{Script: one, Outcome: Outcome{Diff: "-a\n+b\x01\n"}},
		{Script: two, Outcome: Outcome{Skipped: "needs wire"}},
		{Script: two, Err: errors.New("unreachable")},
	}
}

func TestSelection(t *testing.T) {
	results := fourResults(t)
	scripts := []*Script{results[0].Script, results[2].Script}
	for _, test := range []struct {
		selection Selection
		want      []string
	}{
		{Selection{}, []string{"watch/one", "stop/two"}},
		{Selection{Name: regexp.MustCompile("^st")}, []string{"stop/two"}},
		{Selection{Tags: []string{"watch"}}, []string{"watch/one"}},
		{Selection{Tags: []string{"wire", "differs"}}, []string{"watch/one", "stop/two"}},
		{Selection{Name: regexp.MustCompile("one"), Tags: []string{"wire"}}, nil},
	} {
		var names []string
		for _, script := range test.selection.Select(scripts) {
			names = append(names, script.Name)
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("%+v selects %q, want %q", test.selection, names, test.want)
		}
	}
}

func TestSummary(t *testing.T) {
	results := fourResults(t)
	if failed := Failed(results); failed != 2 {
		t.Errorf("%d failed, want 2", failed)
	}
	var b strings.Builder
	if err := PrintSummary(&b, results); err != nil {
		t.Fatal(err)
	}
	want := `section                  same  differs  broken  skipped
coordination §2.9           0        0       1        1
coordination §2.10          1        1       0        0
all                         1        1       1        1
skipped: 1 because the script needs wire
1 of the differing scripts show where coordd is known to differ from YDB
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestReports(t *testing.T) {
	results := fourResults(t)
	var b strings.Builder
	if err := WriteJUnit(&b, results); err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal([]byte(b.String()), &suite); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if suite.Tests != 4 || suite.Failures != 1 || suite.Errors != 1 || suite.Skipped != 1 ||
		suite.Seconds != 1 {
		t.Errorf("got %+v", suite)
	}
	b.Reset()
	if err := WriteJSON(&b, results); err != nil {
		t.Fatal(err)
	}
	var list []jsonResult
	if err := json.Unmarshal([]byte(b.String()), &list); err != nil {
		t.Fatal(err)
	}
	var verdicts []Verdict
	for _, one := range list {
		verdicts = append(verdicts, one.Verdict)
	}
	if !slices.Equal(verdicts, []Verdict{Same, Differs, Skipped, Broken}) || list[3].Error != "unreachable" ||
		list[0].Section != "coordination §2.10" {
		t.Errorf("got %+v", list)
	}
}

func TestRunAllStops(t *testing.T) {
	scripts := loadScripts(t)[:3]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen int
	results := RunAll(ctx, &Pure{}, scripts, func(Result) {
		if seen++; seen == 2 {
			cancel()
		}
	})
	if len(results) != 2 || Failed(results) != 0 {
		t.Errorf("got %d results, %d failed", len(results), Failed(results))
	}
}
