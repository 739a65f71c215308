package tty

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTableFits draws random tables: no line is longer than the terminal is wide, and nothing is cut that had room.
func TestTableFits(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		columns := []int{0, 20, 80, 200}[random.IntN(4)]
		rows := make([][]string, 1+random.IntN(5))
		longest := make([]int, 7)
		for at := range rows {
			for i := range longest {
				cell := strings.Repeat("é", random.IntN(1+random.IntN(60)))
				rows[at] = append(rows[at], cell)
				longest[i] = max(longest[i], utf8.RuneCountInString(cell))
			}
		}
		need := gap * (len(longest) - 1)
		for _, n := range longest {
			need += n
		}
		lines := Table(rows, columns)
		for _, line := range lines {
			if length := utf8.RuneCountInString(line); columns > 0 && length > columns {
				t.Fatalf("seed %d: a line of %d in %d columns: %q", seed, length, columns, line)
			}
		}
		if cut := strings.Contains(strings.Join(lines, ""), "…"); cut != (columns > 0 && need > columns) {
			t.Fatalf("seed %d: %d of %d columns are needed; cut: %v", seed, need, columns, cut)
		}
	}
}
