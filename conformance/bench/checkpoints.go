package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/conformance/raw"
)

// checkpointing reports whether a server is at work on a checkpoint: writes it, or brings its rows to their
// place.
func checkpointing(ctx context.Context, metrics string) (bool, error) {
	open, err := value(ctx, "http://"+metrics+"/metrics", "coordd_checkpoint_open ")
	return open != 0, err
}

// settled waits until there has been no work on a checkpoint for two seconds, so that what was filled in is
// not measured.
func settled(ctx context.Context, metrics string) error {
	for quiet := 0; quiet < 2; quiet++ {
		time.Sleep(time.Second)
		switch open, err := checkpointing(ctx, metrics); {
		case err != nil:
			return err
		case open:
			quiet = -1
		}
	}
	return nil
}

// sample is one pair.
type sample struct {
	begun time.Time
	took  time.Duration
}

// Of the checkpoints that are measured.
const (
	wantedCheckpoints  = 4
	wantedPairs        = 1000 // meanwhile, for their 99th percentile to say anything
	checkpointPatience = 4 * time.Minute
	checkpointPoll     = 100 * time.Millisecond
)

// span is from when until when something was seen.
type span struct{ begun, done time.Time }

// overlaps reports whether a pair went on during one of the spans.
func (one sample) overlaps(spans []span) bool {
	end := one.begun.Add(one.took)
	return slices.ContainsFunc(spans, func(s span) bool {
		return one.begun.Before(s.done) && end.After(s.begun)
	})
}

// checkpoints makes busy clients lock and unlock, and as many others change the data of semaphores, together at
// half of what the server can, until it has worked on some checkpoints meanwhile; it compares the pairs during
// these with the others. A lock that was released leaves nothing to store, so without the changes the
// checkpoints would be empty.
func (s scale) checkpoints(ctx context.Context, of servers) (string, page.Target, error) {
	most, err := spread(ctx, of, s.semaphores, s.length)
	if err != nil {
		return "", page.Target{}, err
	}
	if err := settled(ctx, of[0].metrics); err != nil {
		return "", page.Target{}, err
	}
	say("checkpoints")
	rate := most.perSecond() / 3 // a change is one command, a pair are two: three in the time of six
	samples, spans, err := s.pairsAndSpans(ctx, of[0], rate)
	if err != nil {
		return "", page.Target{}, err
	}
	var during, otherwise []time.Duration
	for _, one := range samples {
		if one.overlaps(spans) {
			during = append(during, one.took)
		} else {
			otherwise = append(otherwise, one.took)
		}
	}
	target := page.Target{Figure: fmt.Sprintf("p99 of W1 while a checkpoint of a state of %s rows is stored, of p99 otherwise", page.Count(s.semaphores)),
		Wanted: "at most 1.5", Limit: 1.5, AtMost: true}
	if len(during) == 0 || len(otherwise) == 0 {
		target.Missing = fmt.Sprintf("no checkpoint within %v", checkpointPatience)
		return "No checkpoint was stored in time.\n", target, nil
	}
	var longest time.Duration
	for _, one := range spans {
		longest = max(longest, one.done.Sub(one.begun))
	}
	with99, without99 := machine.Percentile(during, 99), machine.Percentile(otherwise, 99)
	target.Is = with99.Seconds() / without99.Seconds()
	if len(during) < wantedPairs {
		target.Missing = fmt.Sprintf("only %d pairs fell into a checkpoint, %d are wanted", len(during),
			wantedPairs)
	}
	text := fmt.Sprintf("16 clients that lock and unlock, and 16 that change data, at half of what the server can, %s pairs/s and as many changes, uniformly over %s semaphores, while there was work on %d checkpoints (on the longest %.1f s):\n\n",
		page.Number(rate), page.Count(s.semaphores), len(spans), longest.Seconds())
	text += "| | pairs | p50 ms | p99 ms |\n| --- | --- | --- | --- |\n"
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"while a checkpoint is stored", during}, {"otherwise", otherwise}} {
		text += fmt.Sprintf("| %s | %s | %s | %s |\n", row.name, page.Count(len(row.took)),
			threeDigits(machine.Percentile(row.took, 50)), threeDigits(machine.Percentile(row.took, 99)))
	}
	return text, target, nil
}

// pairsAndSpans has the clients at work at a rate until there have been some checkpoints, and returns the pairs
// and the times of the checkpoints.
func (s scale) pairsAndSpans(ctx context.Context, server *process, rate float64) ([]sample, []span, error) {
	period := time.Duration(busyClients / rate * float64(time.Second))
	var over atomic.Bool
	samples, ended := make([][]sample, busyClients), make(chan error, 1)
	go func() {
		t := newTurn(ctx)
		defer t.end()
		sessions, err := rawSessions(t, server.address, 2*busyClients, busySession)
		if err != nil {
			ended <- err
			return
		}
		ended <- load.Together(sessions, func(i int, session *raw.Session) (err error) {
			if i < busyClients {
				samples[i], err = paced(period, &over, func() error { return pair(session, s.semaphores) })
			} else {
				_, err = paced(period, &over, func() error {
					return session.Update(rowName(rand.IntN(s.semaphores)), []byte(time.Now().String()))
				})
			}
			return err
		})
	}()
	var spans []span
	var err error
	begun, last := time.Now(), false
	for err == nil && time.Since(begun) < checkpointPatience && len(ended) == 0 {
		time.Sleep(checkpointPoll)
		var open bool
		open, err = checkpointing(ctx, server.metrics)
		switch now := time.Now(); {
		case open && !last:
			spans = append(spans, span{now.Add(-checkpointPoll), now})
		case open || last:
			spans[len(spans)-1].done = now
		}
		if last && !open && len(spans) == wantedCheckpoints {
			break
		}
		last = open
	}
	over.Store(true)
	err = errors.Join(err, <-ended)
	return slices.Concat(samples...), spans, err
}

// paced does something once in a period. What begins late, since the one before took so long, counts from when
// it was due.
func paced(period time.Duration, over *atomic.Bool, do func() error) ([]sample, error) {
	var samples []sample
	due := time.Now().Add(rand.N(period))
	for !over.Load() {
		begun := due
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
			begun = time.Now()
		}
		if err := do(); err != nil {
			return samples, err
		}
		samples = append(samples, sample{begun, time.Since(begun)})
		due = due.Add(period)
	}
	return samples, nil
}
