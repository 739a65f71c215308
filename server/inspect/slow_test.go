package inspect

import (
	"testing"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/slowest"
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
		"1.2 s in the sync of the log": {TotalMicros: 1_300_000,
			Stages: []*adminpb.SlowStage{{Stage: "sync", Micros: 1_234_000}}},
		"999 ms until the answer was sent": {TotalMicros: 999_400,
			Stages: []*adminpb.SlowStage{{Stage: "send", Micros: 999_400}}},
	} {
		if got := slowCause(q); got != want {
			t.Errorf("%v\nreads %s\nwant  %s", q, got, want)
		}
	}
	for stage := range slowest.Stages {
		if stageTexts[stage.String()] == "" {
			t.Errorf("no text describes the stage %s", stage)
		}
	}
}
