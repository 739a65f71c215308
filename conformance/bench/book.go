package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/bench/page"
)

// cell is a figure of a workload.
type cell struct {
	workload string
	n        int // clients, watchers, sessions, members or rows
	figure   string
}

// book has what was measured: of each cell and each contestant a value per round.
type book struct {
	cells       []cell // in the order in which they were first measured
	contestants []string
	values      map[cell]map[string][]float64
	missing     map[string]string // contestants that could not be measured at all, and why
}

func newBook() *book {
	return &book{values: make(map[cell]map[string][]float64), missing: make(map[string]string)}
}

func (b *book) add(c cell, contestant string, value float64) {
	if b.values[c] == nil {
		b.values[c] = make(map[string][]float64)
		b.cells = append(b.cells, c)
	}
	b.values[c][contestant] = append(b.values[c][contestant], value)
}

// median is false where nothing was measured.
func (b *book) median(c cell, contestant string) (float64, bool) {
	return median(b.values[c][contestant])
}

func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2], true
}

// ratio is the median of the ratios of one contestant's figure to the other's in the same round.
func (b *book) ratio(c cell, of, to string) (float64, bool) {
	return median(b.roundRatios(c, of, to))
}

// roundRatios are those ratios, sorted.
func (b *book) roundRatios(c cell, of, to string) []float64 {
	ours, theirs := b.values[c][of], b.values[c][to]
	var all []float64
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] > 0 {
			all = append(all, ours[i]/theirs[i])
		}
	}
	slices.Sort(all)
	return all
}

// table shows the medians.
func (b *book) table() string {
	return b.rows(func(c cell, name string) string {
		v, measured := b.median(c, name)
		switch _, missing := b.missing[name]; {
		case measured:
			return page.Number(v)
		case missing:
			return "not measured"
		}
		return ""
	})
}

// ratios shows the figures of all as ratios to those of one contestant: the median of the rounds, and between
// which the middle half of them lies.
func (b *book) ratios(to string) string {
	return b.rows(func(c cell, name string) string {
		all := b.roundRatios(c, name, to)
		if len(all) == 0 {
			return ""
		}
		return fmt.Sprintf("%.3f (%.3f to %.3f)", all[len(all)/2], all[len(all)/4], all[len(all)*3/4])
	})
}

// rows is a table with a row for each cell and a column for each contestant.
func (b *book) rows(value func(c cell, name string) string) string {
	var s strings.Builder
	s.WriteString("| | n | |")
	for _, name := range b.contestants {
		s.WriteString(" " + name + " |")
	}
	s.WriteString("\n| --- | --- | --- |" + strings.Repeat(" --- |", len(b.contestants)) + "\n")
	for _, c := range b.cells {
		if b.values[c][floor] != nil {
			continue
		}
		row := ""
		for _, name := range b.contestants {
			row += strings.TrimSuffix(" "+value(c, name), " ") + " |"
		}
		if strings.Trim(row, " |") != "" {
			fmt.Fprintf(&s, "| %s | %s | %s |%s\n", c.workload, page.Count(c.n), c.figure, row)
		}
	}
	return s.String()
}

// runs is every single value, in the order of the rounds.
func (b *book) runs() string {
	var s strings.Builder
	for _, c := range b.cells {
		for _, name := range append([]string{floor}, b.contestants...) {
			values := b.values[c][name]
			if len(values) == 0 {
				continue
			}
			texts := make([]string, len(values))
			for i, v := range values {
				texts[i] = page.Number(v)
			}
			fmt.Fprintf(&s, "%s, %d, %s, %s: %s\n", c.workload, c.n, c.figure, name, strings.Join(texts, " "))
		}
	}
	return s.String()
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }
