package tty

import (
	"strings"
	"unicode"
)

// gap is the distance between columns.
const gap = 2

// Table returns rows as lines of at most so many columns, 0 for any number. Where they do not fit, the longest cells
// are cut first.
func Table(rows [][]string, columns int) []string {
	if len(rows) == 0 {
		return nil
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	if columns > 0 {
		shrink(widths, columns-gap*(len(widths)-1))
	}
	lines := make([]string, len(rows))
	for at, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = Cut(cell, widths[i])
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-Width(cell)+gap))
			}
		}
		lines[at] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// shrink takes from the widest columns until their sum is at most room; none becomes narrower than 1.
func shrink(widths []int, room int) {
	sum := 0
	for _, width := range widths {
		sum += width
	}
	for ; sum > room; sum-- {
		widest := 0
		for i, width := range widths {
			if width > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= 1 {
			return
		}
		widths[widest]--
	}
}

// Cut returns the beginning of a text of at most so many columns, with a mark where something is missing.
func Cut(text string, columns int) string {
	end, used := 0, 0
	for at, r := range text {
		if used <= columns-1 { // the mark has room behind what is before
			end = at
		}
		if used += runeWidth(r); used > columns {
			return text[:end] + "…"
		}
	}
	return text
}

// wide has the characters of two columns, by Unicode's East Asian Width.
var wide = [][2]rune{{0x1100, 0x115f}, {0x231a, 0x231b}, {0x23e9, 0x23f3}, {0x2e80, 0x303e}, {0x3041, 0x4dbf},
	{0x4e00, 0xa4cf}, {0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60},
	{0xffe0, 0xffe6}, {0x16fe0, 0x18dff}, {0x1aff0, 0x1b2ff}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
	{0x1f7e0, 0x1f7f0}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}}

// Width returns the number of columns of a text at a terminal.
func Width(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	for _, of := range wide {
		if r >= of[0] && r <= of[1] {
			return 2
		}
	}
	return 1
}
