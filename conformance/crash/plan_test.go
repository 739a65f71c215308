//go:build linux

package crash

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/result"
	"github.com/coordd/coordd/conformance/sim/world"
	"github.com/coordd/coordd/internal/testserver"
)

// These are the short forms of make cluster-test and make crash-test: plans of the simulation with a process for each
// server. make chaos runs many.

// TestClusterPlan has a leader that stands still, one that is cut off, one that is killed together with the others, and
// one that hears nothing of a follower.
func TestClusterPlan(t *testing.T) { runPlan(t, "short.json", 100) }

// TestCrashPlan kills a server six times.
func TestCrashPlan(t *testing.T) { runPlan(t, "kills.json", 6) }

// runPlan runs a plan as far as the first events.
func runPlan(t *testing.T, file string, events int) {
	besideOthers(t)
	p, err := plan.Read(filepath.Join("../sim/testdata/processes", file))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Events) > events {
		p.Virtual, p.Events = p.Events[events].At, p.Events[:events]
	}
	program, err := testserver.Build(".", "sim-coordd", "./conformance/sim/process/simserver")
	if err != nil {
		t.Fatal(err)
	}
	p, left, _ := p.ForProcesses(false)
	t.Logf("left out: %v", left)
	o, err := world.Run(p, world.Options{Dir: t.TempDir(), Program: program})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Events {
		if o.Counts["fault "+string(e.Kind)] == 0 {
			t.Errorf("%s did not happen", e.Kind)
		}
	}
	if o.Verdict != result.OK || o.Counts["answers compared"] < 50 || o.Counts["digests compared"] < 50 {
		logs := filepath.Join(t.ArtifactDir(), "logs")
		t.Errorf("%s; %v; servers' logs in %s (kept with -artifacts), %v", o.Verdict, o.Counts, logs,
			os.WriteFile(logs, o.Logs, 0o600))
	}
	for _, violation := range o.Violations {
		t.Error(violation)
	}
}
