package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/load"
)

// Of the checkpoints that are measured.
const (
	wantedCheckpoints  = 4
	wantedPairs        = 1000 // meanwhile, for their 99th percentile to say anything
	checkpointPatience = 4 * time.Minute
	checkpointPoll     = 100 * time.Millisecond
)

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

// span is the time of a pair, or of the work on a checkpoint.
type span struct{ begun, done time.Time }

// checkpoints makes busy clients lock and unlock, and as many others change the data of semaphores, together at
// half of what the server can, until it has worked on some checkpoints meanwhile; it compares the pairs during
// these with the others. A lock that was released leaves nothing to store, so without the changes the
// checkpoints would be empty.
func (b *bench) checkpoints(t *turn, server *process) (string, page.Target, error) {
	target := page.Target{Figure: fmt.Sprintf("p99 of W1 while a checkpoint of a state of %s rows is stored, "+
		"of p99 otherwise", page.Count(b.rows)), Limit: 1.5, AtMost: true}
	most, err := b.spreadPairs(t, servers{server}, b.rows)
	if err != nil {
		return "", target, err
	}
	if err := settled(t, server.metrics); err != nil {
		return "", target, err
	}
	say("checkpoints")
	rate := most.perSecond() / 3 // a change is one command, a pair are two: three in the time of six
	pairs, stored, err := b.pairsBesideCheckpoints(t, server, rate)
	if err != nil {
		return "", target, err
	}
	var during, otherwise load.Times
	for _, pair := range pairs {
		of := &otherwise
		if slices.ContainsFunc(stored, func(s span) bool {
			return pair.begun.Before(s.done) && pair.done.After(s.begun)
		}) {
			of = &during
		}
		*of = append(*of, pair.done.Sub(pair.begun))
	}
	if len(during) < wantedPairs || len(otherwise) == 0 {
		target.Missing = fmt.Sprintf("only %d pairs fell into a checkpoint within %v, %d are wanted", len(during),
			checkpointPatience, wantedPairs)
	}
	target.Is = during.Percentile(99).Seconds() / otherwise.Percentile(99).Seconds()
	var longest time.Duration
	for _, s := range stored {
		longest = max(longest, s.done.Sub(s.begun))
	}
	text := fmt.Sprintf("16 clients that lock and unlock, and 16 that change data, at half of what the server can, "+
		"%s pairs/s and as many changes, uniformly over %s semaphores, while there was work on %d checkpoints "+
		"(on the longest %.1f s):\n\n| | pairs | p50 ms | p99 ms |\n| --- | --- | --- | --- |\n",
		page.Number(rate), page.Count(b.rows), len(stored), longest.Seconds())
	row := func(name string, took load.Times) string {
		return fmt.Sprintf("| %s | %s | %s | %s |\n", name, page.Count(len(took)), threeDigits(took.Percentile(50)),
			threeDigits(took.Percentile(99)))
	}
	return text + row("while a checkpoint is stored", during) + row("otherwise", otherwise), target, nil
}

// pairsBesideCheckpoints has the clients at work at a rate until there have been some checkpoints, and returns the
// pairs and the checkpoints.
func (b *bench) pairsBesideCheckpoints(t *turn, server *process, rate float64) (pairs, stored []span, err error) {
	sessions, err := rawSessions(t, server.address, 2*busyClients)
	if err != nil {
		return nil, nil, err
	}
	var over atomic.Bool
	period := time.Duration(busyClients / rate * float64(time.Second))
	spans, ended := make([][]span, busyClients), make(chan error, 1)
	go func() {
		ended <- load.Together(sessions, func(i int, s *raw.Session) (err error) {
			if i < busyClients {
				spans[i], err = paced(period, &over, func() error { return pair(s, b.rows) })
			} else {
				_, err = paced(period, &over, func() error {
					return s.Update(rowName(rand.IntN(b.rows)), []byte(time.Now().String()))
				})
			}
			return err
		})
	}()
	begun, last := time.Now(), false
	for err == nil && time.Since(begun) < checkpointPatience && len(ended) == 0 {
		time.Sleep(checkpointPoll)
		var open bool
		open, err = checkpointing(t, server.metrics)
		now := time.Now()
		if open && !last {
			stored = append(stored, span{begun: now.Add(-checkpointPoll)})
		}
		if open || last {
			stored[len(stored)-1].done = now
		}
		if last && !open && len(stored) == wantedCheckpoints {
			break
		}
		last = open
	}
	over.Store(true)
	err = errors.Join(err, <-ended)
	return slices.Concat(spans...), stored, err
}

// paced does something once in a period. What begins late, since the one before took so long, counts from when
// it was due.
func paced(period time.Duration, over *atomic.Bool, do func() error) (spans []span, _ error) {
	due := time.Now().Add(rand.N(period))
	for !over.Load() {
		begun := due
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
			begun = time.Now()
		}
		if err := do(); err != nil {
			return spans, err
		}
		spans = append(spans, span{begun, time.Now()})
		due = due.Add(period)
	}
	return spans, nil
}
