package main

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/bench/openloop"
	"github.com/coordd/coordd/internal/load"
)

// A void row shows no percentile, nor does a row show the one of a null run that is void.
func TestOpenTable(t *testing.T) {
	t.Parallel()
	row := func(server string, took, others time.Duration, floor *openloop.Row) openRow {
		r := &openloop.Row{Rate: 1500, Took: load.Times{took}, Late: load.Times{50 * time.Microsecond},
			Length: 10 * time.Second, Spent: openloop.Spent{All: 5*time.Second + others, Server: 5 * time.Second}}
		return openRow{Row: r, cell: openCell{name: "a cell", product: server}, floor: floor}
	}
	null := row("stub", 2*time.Millisecond, 0, nil)
	busy := row("stub", 2*time.Millisecond, 3*time.Second, nil)
	text := openTable([]openRow{null, row("coordd", 4*time.Millisecond, 0, null.Row)})
	for _, want := range []string{
		"| a cell | coordd | 1,500 | 4.000 | 4.000 | 4.000 | 4.000 | 1.0 | 2.000, 2.000, 2.000 | 0.050, ",
		"| sound |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "void") {
		t.Errorf("something is void:\n%s", text)
	}
	text = openTable([]openRow{busy, row("coordd", 4*time.Millisecond, 0, busy.Row),
		row("coordd", 6*time.Millisecond, 3*time.Second, null.Row)})
	for _, want := range []string{"| stub | 1,500 | void | void | void | void |  |  |",
		"| coordd | 1,500 | 4.000 | 4.000 | 4.000 | 4.000 | 1.0 | void, void, void |",
		"| coordd | 1,500 | void | void | void | void |  | 2.000, 2.000, 2.000 |",
		"void: others took 0.30 of a core", "quiet machine"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
