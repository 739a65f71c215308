package conformance

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/coordination"
)

var (
	update   = flag.Bool("update", false, "rewrite what the scripts expect to what the pure level does")
	printMap = flag.Bool("map", false, "print which scripts show which rule")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loadScripts(t *testing.T) []*Script {
	t.Helper()
	scripts, err := Scripts()
	if err != nil {
		t.Fatal(err)
	}
	return scripts
}

// replay runs all scripts on a target, each as a test of its own.
func replay(t *testing.T, target Target) {
	for _, script := range loadScripts(t) {
		t.Run(script.Name, func(t *testing.T) {
			outcome, err := Run(t.Context(), target, script)
			switch {
			case err != nil:
				t.Fatal(err)
			case outcome.Skipped != "":
				t.Skip(outcome.Skipped)
			case outcome.Diff != "":
				t.Error("what came is not what the script says:\n" + outcome.Diff)
			}
		})
	}
}

func TestPure(t *testing.T) {
	if *update {
		rewrite(t)
	}
	replay(t, &Pure{})
}

// TestPureStored sends everything through its stored format.
func TestPureStored(t *testing.T) {
	replay(t, &Pure{Stored: true})
}

// TestPureFailOver changes the leader between every two steps. Nobody may notice.
func TestPureFailOver(t *testing.T) {
	replay(t, &Pure{FailOver: true})
}

// TestFailOverExemptions wants a script that says it cannot stand a leader change to differ because of one.
func TestFailOverExemptions(t *testing.T) {
	for _, script := range loadScripts(t) {
		if script.NotFailOver == "" {
			continue
		}
		script.Needs = slices.DeleteFunc(script.Needs, func(need Need) bool { return need == NeedSameLeader })
		if outcome, err := Run(t.Context(), &Pure{FailOver: true}, script); err == nil && outcome.Diff == "" {
			t.Errorf("%s shows no leader change: it needs no exemption", script.Name)
		}
	}
}

func rewrite(t *testing.T) {
	for _, script := range loadScripts(t) {
		outcome, err := Run(context.Background(), &Pure{}, script)
		if err != nil {
			t.Error(err)
			continue
		}
		if outcome.Diff == "" {
			continue
		}
		file := filepath.Join("testdata", filepath.FromSlash(script.Name)+".txt")
		if err := os.WriteFile(file, []byte(outcome.Text), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s is rewritten; look at the difference, then run the tests again", file)
	}
}

// TestMap fails on a rule without a script, and on one that says "later" although a script shows it.
func TestMap(t *testing.T) {
	rules, err := Map(loadScripts(t))
	if err != nil {
		t.Fatal(err)
	}
	if *printMap {
		if err := PrintMap(os.Stdout, rules); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range rules {
		switch {
		case rule.Later == "" && len(rule.Scripts) == 0:
			t.Errorf("no script shows %s: %s", rule.ID, rule.Text)
		case rule.Later != "" && len(rule.Scripts) > 0:
			t.Errorf("%s is shown by %v, but rules.txt says that it cannot be: %s", rule.ID, rule.Scripts, rule.Later)
		}
	}
}

// TestRealLimits asserts the limits that scripts have to lower (coordination.md §5).
func TestRealLimits(t *testing.T) {
	if want := (coordination.Limits{Sessions: 1_000_000, Semaphores: 1_000_000}); coordination.DefaultLimits() != want {
		t.Errorf("the limits are %+v, want %+v", coordination.DefaultLimits(), want)
	}
}
