package main

import (
	"context"
	"time"
)

// checkpointPoll separates two looks at the work on checkpoints.
const checkpointPoll = 100 * time.Millisecond

// checkpointing reports whether a server is at work on a checkpoint: writes it, or merges its files.
func checkpointing(ctx context.Context, metrics string) (bool, error) {
	open, err := value(ctx, "http://"+metrics+"/metrics", "coordd_checkpoint_open ")
	return open != 0, err
}

// settled waits until there has been no work on a checkpoint for two seconds, so that what was filled in is
// not measured.
func settled(ctx context.Context, metrics string) error {
	for quiet := 0; quiet < 2; quiet++ {
		time.Sleep(time.Second)
		if open, err := checkpointing(ctx, metrics); err != nil {
			return err
		} else if open {
			quiet = -1
		}
	}
	return nil
}

// span is the time of the work on a checkpoint.
type span struct{ begun, done time.Time }
