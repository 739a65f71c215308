package openloop

import (
	"fmt"
	"math"
	"time"

	"github.com/coordd/coordd/internal/load"
)

const (
	// lateMost is the part of a percentile of the latencies that the same percentile of the generator's lateness
	// may have at most.
	lateMost = 0.1
	// othersMost bounds the processor time of other programs, in cores.
	othersMost = 0.1
	// kneeRatio is the ratio of the 99th percentile to the median, and of the median to that at low rates, from which
	// on a rate is beyond the knee.
	kneeRatio = 10
	// kneeStep is the factor from one rate that is tried to the next.
	kneeStep = 1.25
	// kneeTries limits the runs at one rate: a stall of the disk may fall into one.
	kneeTries = 3
)

// Row is the result of one run, with the condition of the machine in its time.
type Row struct {
	Rate       float64    // requests a second that were due
	Took       load.Times // from when a request was due until its answer
	Late       load.Times // from when a request was due until it was sent
	Unanswered int
	Length     time.Duration
	Spent      Spent
}

// Spent is the processor time of a run.
type Spent struct {
	All, Steal        time.Duration // of the whole machine: in use, and taken by the machine below it
	Server, Generator time.Duration
	Beside            time.Duration // of a program that disturbs the server on purpose
}

// Others returns the cores that were in use by neither the server nor the generator.
func (r *Row) Others() float64 {
	return (r.Spent.All - r.Spent.Server - r.Spent.Generator - r.Spent.Beside).Seconds() / r.Length.Seconds()
}

// AtMost reports whether a percentile of the row is no more than a bound of that of the server, as the generator was
// late itself. In a queue, a request that comes late makes no answer earlier.
func (r *Row) AtMost(p float64) bool {
	return float64(r.Late.Percentile(p)) > lateMost*float64(r.Took.Percentile(p))
}

// Void returns the reasons for which the row says nothing about the server, none if it is sound.
func (r *Row) Void() []string {
	var reasons []string
	if r.Unanswered > 0 {
		reasons = append(reasons, fmt.Sprintf("%d requests were not answered", r.Unanswered))
	}
	if others := r.Others(); others > othersMost {
		reasons = append(reasons, fmt.Sprintf("others took %.2f of a core", others))
	}
	return reasons
}

// holds reports whether the rate of a row is below the knee; usual is the median at low rates. Above the knee the queue
// grows until the end of the run, so that the median is of the size of the run and the 99th percentile just twice that.
func (r *Row) holds(usual time.Duration) bool {
	return r.Unanswered == 0 && len(r.Took) > 0 && r.Took.Percentile(99) < kneeRatio*r.Took.Percentile(50) &&
		r.Took.Percentile(50) < kneeRatio*usual
}

// Knee returns the highest rate that holds: from a first rate on it tries higher ones until one does not hold
// kneeTries times in a row, or most is reached. It is 0 if the first one does not hold.
func Knee(first, most float64, try func(rate float64) (*Row, error)) (knee float64, err error) {
	usual := time.Duration(math.MaxInt64 / kneeRatio)
	for rate := first; rate <= most; rate *= kneeStep {
		holds := false
		for attempt := 0; attempt < kneeTries && !holds; attempt++ {
			row, err := try(rate)
			if err != nil {
				return 0, err
			}
			if len(row.Took) > 0 {
				usual = min(usual, row.Took.Percentile(50))
			}
			holds = row.holds(usual)
		}
		if !holds {
			return knee, nil
		}
		knee = rate
	}
	return knee, nil
}

// Since returns the processor time since an earlier moment.
func (s Spent) Since(before Spent) Spent {
	return Spent{s.All - before.All, s.Steal - before.Steal, s.Server - before.Server,
		s.Generator - before.Generator, s.Beside - before.Beside}
}
