package main

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/server/adminpb"
)

// TestSlowCause words the cause of slow requests: the stages that took most, and what went on meanwhile.
func TestSlowCause(t *testing.T) {
	t.Parallel()
	stages := func(names ...string) (list []*adminpb.SlowStage) {
		for i, name := range names {
			list = append(list, &adminpb.SlowStage{Stage: name, Micros: uint32(66_000 >> (2 * i))})
		}
		return list
	}
	for want, q := range map[string]*adminpb.SlowCall{
		"66 ms in the write of the log": {TotalMicros: 71_000, Stages: stages("write")},
		"66 ms until a turn of the group, 16.5 ms in the sync of the log; a turn took 60 ms": {TotalMicros: 82_000,
			Stages: stages("turn", "sync", "apply"), LongTurnMicros: 60_000},
		"66 ms until the leader answered; garbage was collected for about 12.3 ms; a checkpoint was being written; " +
			"the leader changed": {TotalMicros: 71_000, Stages: stages("leader"), CollectingMicros: 12_345,
			Checkpoint: true, LeaderChanged: true, LongTurnMicros: 2000},
		"66 ms in a later stage": {TotalMicros: 71_000, Stages: stages("a later stage")},
	} {
		if got := slowCause(q); got != want {
			t.Errorf("%v\nreads %s\nwant  %s", q, got, want)
		}
	}
}

// TestSlow shows a request of another command, in a table and as a line of json.
func TestSlow(t *testing.T) {
	t.Parallel()
	endpoint := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off").ready(t)
	does(t, endpoint, "slow")
	does(t, endpoint, "node create app", "made")
	does(t, endpoint, "sem create app door --limit 1", "made")
	does(t, endpoint, "slow", "REQUEST", "create   /local/app", `"door"`, " ms")
	lines := strings.Split(strings.TrimSpace(does(t, endpoint, "slow --limit 1 -o jsonl")), "\n")
	row := parsed(t, lines[0])
	if len(lines) != 1 || at(t, row, "node") != "/local/app" || at(t, row, "semaphore") != "door" ||
		at(t, row, "total_millis").(float64) <= 0 || at(t, row, "session").(float64) == 0 ||
		len(at(t, row, "stages_millis").(map[string]any)) == 0 || at(t, row, "window", "longest_turn_millis") == nil ||
		at(t, row, "cause") == "" {
		t.Errorf("got %v", row)
	}
}
