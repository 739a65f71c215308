package tty

import (
	"strings"
	"unicode/utf8"
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
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
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
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
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
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:max(columns-1, 0)]) + "…"
}
