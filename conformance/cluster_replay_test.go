package conformance

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin"
)

var clusterSeed = flag.Uint64("cluster-seed", 1, "the seed of leader changes in TestCluster*")

// clusterFull asks for all scripts where `make test` is content with some.
func clusterFull() bool { return os.Getenv("CLUSTER_FULL") != "" }

// some is every third script, which has to do where clusterFull does not ask for all.
func some(scripts []*Script) []*Script {
	if clusterFull() {
		return scripts
	}
	var third []*Script
	for i := 0; i < len(scripts); i += 3 {
		third = append(third, scripts[i])
	}
	return third
}

// sideBySide is the number of scripts that run on a cluster at a time.
const sideBySide = 16

// replaySideBySide runs scripts on a target that can take many at a time, and reports each as a test of its
// own.
func replaySideBySide(t *testing.T, target Target, scripts []*Script, atATime int) {
	t.Helper()
	results, replays := make([]Result, len(scripts)), make([]int, len(scripts))
	work := make(chan int)
	var workers sync.WaitGroup
	for range atATime {
		workers.Go(func() {
			for i := range work {
				results[i], replays[i] = replayThrough(t.Context(), target, scripts[i])
			}
		})
	}
	for i := range scripts {
		work <- i
	}
	close(work)
	workers.Wait()
	for i := range results {
		t.Run(scripts[i].Name, func(t *testing.T) {
			if replays[i] > 0 {
				t.Logf("replayed %d times because of leader changes", replays[i])
			}
			report(t, &results[i])
		})
	}
}

func report(t *testing.T, r *Result) {
	switch r.Verdict() {
	case Broken:
		t.Error(r.Err)
	case Skipped:
		t.Skip(r.Outcome.Skipped)
	case Differs:
		t.Error("what came is not what the script says:\n" + r.Outcome.Diff)
	}
}

// onCluster starts a cluster and connects to a server that does not lead.
func onCluster(t *testing.T, begin starter) (*cluster, *clusterTarget, *heirs) {
	t.Helper()
	c := startCluster(t, begin)
	first, err := c.follower(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.first = first
	target, err := dialCluster(t.Context(), c, first)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, target, &heirs{rand.New(rand.NewPCG(*clusterSeed, 0)), first, len(c.servers)}
}

// TestCluster runs the scripts in which no time passes on a cluster of three, through a server that does not
// lead. Where clusterFull does not ask for all, those that TestClusterFailOver runs are left to it: on three
// servers, with more that happens.
func TestCluster(t *testing.T) {
	_, target, _ := onCluster(t, standin.Slow)
	scripts := slices.DeleteFunc(untimedOf(loadScripts(t)), (*Script).restarts)
	if !clusterFull() {
		elsewhere := some(untimedOf(loadScripts(t)))
		scripts = slices.DeleteFunc(scripts, func(s *Script) bool {
			return !slices.Contains(s.Needs, NeedSameLeader) &&
				slices.ContainsFunc(elsewhere, func(other *Script) bool { return other.Name == s.Name })
		})
	}
	replaySideBySide(t, target, scripts, sideBySide)
}

// TestClusterInTime runs the other scripts on a cluster that goes by the real clock: those in which time
// passes, and those that restart the servers, of which some have to do where clusterFull does not ask for
// all.
func TestClusterInTime(t *testing.T) {
	testmode.Long(t)
	_, target, _ := onCluster(t, server.Start)
	var timed, restarts []*Script
	for _, script := range loadScripts(t) {
		switch {
		case script.restarts():
			restarts = append(restarts, script)
		case script.timed():
			timed = append(timed, script)
		}
	}
	if !clusterFull() {
		restarts = restarts[:min(3, len(restarts))]
	}
	replaySideBySide(t, target, timed, 1)
	replaySideBySide(t, target, restarts, 1)
}

// TestClusterFailOver changes the leader of a cluster between every two steps of every script. Nobody may
// notice.
func TestClusterFailOver(t *testing.T) {
	t.Logf("-cluster-seed=%d", *clusterSeed)
	scripts := loadScripts(t)
	replaySideBySide(t, onFailingOver(t, standin.Slow), some(untimedOf(scripts)), sideBySide)
	// a leader change takes time, and begins waits anew: on a busy machine these may see it
	if clusterFull() {
		replaySideBySide(t, onFailingOver(t, server.Start), timedOf(scripts), 1)
	}
}

// onFailingOver is onCluster of one whose leader changes where the scripts meet.
func onFailingOver(t *testing.T, begin starter) *clusterTarget {
	t.Helper()
	c, target, heirs := onCluster(t, begin)
	target.meeting = newMeeting(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		leader, err := c.leader(ctx)
		if err != nil {
			return err
		}
		return c.handOver(ctx, heirs.next(leader))
	})
	return target
}

// untimedOf are the scripts that can run side by side.
func untimedOf(scripts []*Script) []*Script {
	return slices.DeleteFunc(slices.Clone(scripts), (*Script).timed)
}

// timedOf are the others.
func timedOf(scripts []*Script) []*Script {
	return slices.DeleteFunc(slices.Clone(scripts), func(s *Script) bool { return !s.timed() })
}

// timed reports whether the script goes by the real clock, and so cannot wait for others: it lets time pass,
// or makes a call run out of it, or leaves pings unanswered.
func (s *Script) timed() bool {
	return s.waits() > 0 || slices.ContainsFunc(s.lines, func(line string) bool {
		return strings.HasSuffix(line, ": no pong") || shortCall.MatchString(line)
	})
}

// shortCall is in a line with a call that may run out of time while the script runs.
var shortCall = regexp.MustCompile(` (operation_timeout|cancel_after)=\d+ms`)

// restarts reports whether the script restarts servers.
func (s *Script) restarts() bool { return slices.Contains(s.Needs, NeedRestart) }

// TestClusterRestless changes the leader of a cluster at any time, while requests are under way. Left out are
// scripts about watches, because a change that happens together with a leader change may be notified as Changed(false,
// false), and those about sequence numbers, because a new leader learns them only from the streams.
func TestClusterRestless(t *testing.T) {
	t.Logf("-cluster-seed=%d", *clusterSeed)
	c, target, heirs := onCluster(t, standin.Slow)
	target.restless = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.keepHandingOver(ctx, heirs) }()
	scripts := slices.DeleteFunc(loadScripts(t), func(s *Script) bool {
		return s.timed() || s.mentions("watch_") || s.mentions(" seq=")
	})
	rounds := 1
	if clusterFull() {
		rounds = 20
	}
	for range rounds {
		replaySideBySide(t, target, some(scripts), sideBySide)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// mentions reports whether a word is anywhere in the script.
func (s *Script) mentions(word string) bool {
	return slices.ContainsFunc(s.lines, func(line string) bool { return strings.Contains(line, word) })
}

// keepHandingOver changes the leader again and again until ctx ends. Each leads for as long as it took to
// come to that, at least, so that on a busy machine, too, something is done in between.
func (c *cluster) keepHandingOver(ctx context.Context, heirs *heirs) error {
	const longest = 100 * time.Millisecond
	for took := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(took + time.Duration(heirs.random.Int64N(int64(longest)))):
		}
		begun := time.Now()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		leader, err := c.leader(bounded)
		if err == nil {
			err = c.handOver(bounded, heirs.next(leader))
		}
		cancel()
		if err != nil {
			return err
		}
		took = time.Since(begun)
	}
}
