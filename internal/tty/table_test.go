package tty

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// cells counts the columns of a text of the characters in these tests.
func cells(text string) int {
	return utf8.RuneCountInString(text) + strings.Count(text, "漢") - strings.Count(text, "\u0301")
}

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
				cell := strings.Repeat([]string{"é", "e\u0301", "漢"}[random.IntN(3)], random.IntN(1+random.IntN(60)))
				rows[at] = append(rows[at], cell)
				longest[i] = max(longest[i], cells(cell))
			}
		}
		need := gap * (len(longest) - 1)
		for _, n := range longest {
			need += n
		}
		lines := Table(rows, columns)
		for _, line := range lines {
			if length := cells(line); columns > 0 && length > columns {
				t.Fatalf("seed %d: a line of %d in %d columns: %q", seed, length, columns, line)
			}
		}
		if cut := strings.Contains(strings.Join(lines, ""), "…"); cut != (columns > 0 && need > columns) {
			t.Fatalf("seed %d: %d of %d columns are needed; cut: %v", seed, need, columns, cut)
		}
	}
}

// TestWidth measures texts of several scripts.
func TestWidth(t *testing.T) {
	for text, want := range map[string]int{"": 0, "lock": 4, "é": 1, "e\u0301": 1, "漢字": 4, "한글": 4, "ｗ": 2,
		"🔒x": 3, "…": 1, "a\u200db": 2, "\xff": 1, "привет": 6} {
		if got := Width(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
	for columns, want := range []string{"…", "…", "…", "漢…", "漢…", "漢字…", "漢字漢"} {
		if got := Cut("漢字漢", columns); got != want || columns > 0 && Width(got) > columns {
			t.Errorf("%q in %d columns, want %q", got, columns, want)
		}
	}
}
