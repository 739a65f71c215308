package conformance

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/testmode"
)

var (
	update   = flag.Bool("update", false, "rewrite what the scripts expect to what the pure level does")
	printMap = flag.Bool("map", false, "print which scripts show which rule")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allScripts are the scripts of all tests here, parsed once: some hold values of megabytes.
var allScripts = sync.OnceValues(Scripts)

// loadScripts returns scripts whose fields the test may change.
func loadScripts(t *testing.T) []*Script {
	t.Helper()
	scripts, err := allScripts()
	if err != nil {
		t.Fatal(err)
	}
	own := make([]*Script, len(scripts))
	for i, script := range scripts {
		copied := *script
		copied.Needs = slices.Clone(script.Needs)
		own[i] = &copied
	}
	return own
}

// replay runs all scripts on a target, each as a test of its own.
func replay(t *testing.T, target Target) { replayScripts(t, target, loadScripts(t)) }

func replayScripts(t *testing.T, target Target, scripts []*Script) {
	for _, script := range scripts {
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
	testmode.WithoutRace(t)
	if *update {
		rewrite(t)
	}
	replay(t, &Pure{})
}

// TestPureStored sends everything through its stored format.
func TestPureStored(t *testing.T) {
	testmode.WithoutRace(t)
	replay(t, &Pure{Stored: true})
}

// TestPureFailOver changes the leader between every two steps. Nobody may notice.
func TestPureFailOver(t *testing.T) {
	testmode.WithoutRace(t)
	replay(t, &Pure{FailOver: true})
}

// TestPureBatches puts what is in flight together into entries of the log of random sizes. Nobody may notice,
// nor when the leader changes between them.
func TestPureBatches(t *testing.T) {
	testmode.WithoutRace(t)
	replay(t, &Pure{Batches: true, Stored: true})
}

// TestPureBatchesFailOver is both at once.
func TestPureBatchesFailOver(t *testing.T) {
	testmode.WithoutRace(t)
	replay(t, &Pure{Batches: true, FailOver: true})
}

// TestFailOverExemptions wants a script that says it cannot stand a leader change to differ because of one.
func TestFailOverExemptions(t *testing.T) {
	for _, script := range loadScripts(t) {
		if script.NotFailOver == "" {
			continue
		}
		script.Needs = slices.DeleteFunc(script.Needs, func(need Need) bool { return need == NeedSameLeader })
		if outcome, err := Run(t.Context(), &Pure{FailOver: true}, script); err == nil &&
			outcome.Diff == "" && outcome.Skipped == "" {
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

// TestMap fails on a rule that neither a script nor a Go test shows, on one that says it cannot be shown
// although it is, and on a Go test that does not exist.
func TestMap(t *testing.T) {
	rules, err := ruleMap(loadScripts(t))
	if err != nil {
		t.Fatal(err)
	}
	if *printMap {
		if err := printRuleMap(os.Stdout, rules); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range rules {
		switch {
		case rule.Later+rule.Never == "" && len(rule.Scripts)+len(rule.Tests) == 0:
			t.Errorf("nothing shows %s: %s", rule.ID, rule.Text)
		case rule.Later+rule.Never != "" && len(rule.Scripts) > 0:
			t.Errorf("%s is shown by %v, but rules.txt says that it cannot be: %s", rule.ID, rule.Scripts,
				rule.Later+rule.Never)
		}
		for _, test := range rule.Tests {
			if !testExists(t, test) {
				t.Errorf("%s: there is no test %s", rule.ID, test)
			}
		}
	}
}

// testExists looks for a Go test by its package's name and its own. Packages are looked for in the folders of
// that name, at the top or one below.
func testExists(t *testing.T, test string) bool {
	t.Helper()
	folder, name, _ := strings.Cut(test, ".")
	for _, pattern := range []string{filepath.Join("..", folder, "*_test.go"),
		filepath.Join("..", "*", folder, "*_test.go"), filepath.Join("..", "*", "*", folder, "*_test.go")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			} else if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
				return true
			}
		}
	}
	return false
}

// TestRealLimits asserts the limits that scripts have to lower (coordination.md §5, and docs/dev/limits.md for
// the bytes).
func TestRealLimits(t *testing.T) {
	if want := (coordination.Limits{Sessions: 1_000_000, Semaphores: 1_000_000,
		Bytes: 1 << 30}); coordination.DefaultLimits() != want {
		t.Errorf("the limits are %+v, want %+v", coordination.DefaultLimits(), want)
	}
}
