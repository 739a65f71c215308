package datadir

import (
	"cmp"
	"log/slog"
	"time"
)

// progressPeriod separates two log lines about the progress of a start.
const progressPeriod = time.Second

// progress logs and shows how far a long piece of work has come, the former once in each period.
type progress struct {
	logger *slog.Logger                             // may be nil
	show   func(what, unit string, done, of uint64) // may be nil
	period time.Duration                            // 0: progressPeriod
	what   string                                   // is being done
	unit   string                                   // in which it is counted
	done   uint64
	of     uint64 // how many there are
	told   time.Time
}

func newProgress(l *slog.Logger, show func(what, unit string, done, of uint64), period time.Duration,
	what, unit string) *progress {
	return &progress{logger: l, show: show, period: cmp.Or(period, progressPeriod), what: what, unit: unit,
		told: time.Now()}
}

// step notes that one more is done. It looks at the clock only now and then.
func (p *progress) step() {
	if p.done++; p.done%ProgressSteps == 0 {
		p.tell()
	}
}

// ProgressSteps is the number of small steps between two looks at the clock.
const ProgressSteps = 4096

// It logs the progress if a period has passed since the last time.
func (p *progress) tell() {
	if p.show != nil {
		p.show(p.what, p.unit, p.done, p.of)
	}
	if p.logger == nil || time.Since(p.told) < p.period {
		return
	}
	p.told = time.Now()
	p.logger.Info(p.what, p.unit, p.done, "of", p.of)
}
