package tty

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// progressAfter is the time before progress is shown, and progressEvery that between two pictures of it.
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// Progress is a line at the bottom of a terminal that shows how far long work is. Without a terminal it shows nothing.
type Progress struct {
	out    *os.File
	now    func() time.Time
	what   string
	begun  time.Time // of what
	drawn  time.Time
	shown  bool
	behind uint64 // what was done when it began
}

// NewProgress returns a line for a terminal, or for nil one that shows nothing.
func NewProgress(out *os.File) *Progress { return &Progress{out: Of(out), now: time.Now} }

// Reader returns a reader whose progress is shown in bytes, of so many.
func (p *Progress) Reader(r io.Reader, what string, of int64) io.Reader {
	return &progressReader{r: r, p: p, what: what, of: uint64(max(of, 0))}
}

type progressReader struct {
	r        io.Reader
	p        *Progress
	what     string
	done, of uint64
}

// Read implements io.Reader.
func (r *progressReader) Read(to []byte) (int, error) {
	n, err := r.r.Read(to)
	r.done += uint64(n)
	r.p.Show(r.what, "bytes", r.done, r.of)
	return n, err
}

// Show is called as often as something is done: so much of it, of so much, 0 if that is not known.
func (p *Progress) Show(what, unit string, done, of uint64) {
	if p.out == nil {
		return
	}
	now := p.now()
	if what != p.what {
		p.what, p.begun, p.behind = what, now, done
	}
	if now.Sub(p.begun) < progressAfter && !p.shown || now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn, p.shown = now, true
	columns, _ := Size(p.out)
	fmt.Fprint(p.out, "\r\x1b[K"+Cut(p.text(unit, done, of, now), columns-1))
}

// End clears the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.shown = false
}

func (p *Progress) text(unit string, done, of uint64, now time.Time) string {
	if of == 0 || done > of {
		return fmt.Sprintf("%s: %s", p.what, amount(done, unit))
	}
	text := fmt.Sprintf("%s: %s of %s, %d %%", p.what, amount(done, unit), amount(of, unit), percent(done, of))
	if gone := now.Sub(p.begun); done > p.behind && gone > progressAfter {
		left := time.Duration(float64(gone) * float64(of-done) / float64(done-p.behind))
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return text
}

func percent(done, of uint64) int { return int(float64(done) / float64(of) * 100) }

// amount is a number with its unit. Bytes are in MiB.
func amount(n uint64, unit string) string {
	if unit == "bytes" {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d %s", n, unit)
}
