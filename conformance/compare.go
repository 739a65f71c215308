package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// with returns the script's text with what came in place of what is expected.
func (s *Script) with(steps [][]Line, names *names) string {
	var b strings.Builder
	at := 0
	copyTo := func(end int) {
		for ; at < end; at++ {
			b.WriteString(s.lines[at] + "\n")
		}
	}
	for i := range s.steps {
		step := &s.steps[i]
		copyTo(step.from)
		at = step.to
		came := steps[i]
		for j := range came {
			came[j].Text = names.resolve(came[j].Text)
		}
		came = merge(step.expected, came, step.anyOrder)
		writeCame(&b, came, step.dashes, step.anyOrder)
	}
	copyTo(len(s.lines))
	return b.String()
}

func writeCame(b *strings.Builder, came []Line, anyway, anyOrder bool) {
	switch {
	case anyOrder:
		b.WriteString(dashesAnyOrder + "\n")
	case anyway || len(came) > 0:
		b.WriteString(dashes + "\n")
	}
	for _, m := range came {
		b.WriteString(m.String() + "\n")
	}
}

// StepText returns a step as a script has it: requests, and what they show.
func StepText(requests []string, came []Line, anyOrder bool) string {
	var b strings.Builder
	b.WriteString(strings.Join(requests, "\n") + "\n")
	writeCame(&b, came, false, anyOrder)
	return b.String()
}

// merge brings what came into the order of what is expected as far as the protocol leaves the order open:
// between streams, and within a stream in a step of any order. What matches is shown as it is expected.
func merge(expected, came []Line, anyOrder bool) []Line {
	came = slices.Clone(came)
	var merged []Line
	for _, want := range expected {
		for i, got := range came {
			if got.From != want.From {
				continue
			}
			if matches(want.Text, got.Text) {
				merged = append(merged, want)
				came = slices.Delete(came, i, i+1)
				break
			}
			if !anyOrder {
				merged = append(merged, got)
				came = slices.Delete(came, i, i+1)
				break
			}
		}
	}
	return append(merged, came...)
}

// matches compares an expected text, in which "..." stands for anything, with a text.
func matches(want, got string) bool {
	pieces := strings.Split(want, "...")
	if len(pieces) == 1 {
		return want == got
	}
	got, ok := strings.CutPrefix(got, pieces[0])
	if !ok {
		return false
	}
	for _, piece := range pieces[1 : len(pieces)-1] {
		_, rest, found := strings.Cut(got, piece)
		if !found {
			return false
		}
		got = rest
	}
	return strings.HasSuffix(got, pieces[len(pieces)-1])
}

const diffContext = 4

// unifiedDiff shows how two texts differ, with some lines around each difference. It is empty if they do not.
func unifiedDiff(name, want, got string) string {
	if want == got {
		return ""
	}
	edits := diffLines(strings.Split(strings.TrimSuffix(want, "\n"), "\n"),
		strings.Split(strings.TrimSuffix(got, "\n"), "\n"))
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s, expected\n+++ %s, got\n", name, name)
	wantLine, gotLine := 1, 1
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' && !nearChange(edits, i) {
			wantLine, gotLine, i = wantLine+1, gotLine+1, i+1
			continue
		}
		end, wantCount, gotCount := i, 0, 0
		for ; end < len(edits) && (edits[end].op != ' ' || nearChange(edits, end)); end++ {
			if edits[end].op != '+' {
				wantCount++
			}
			if edits[end].op != '-' {
				gotCount++
			}
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", wantLine, wantCount, gotLine, gotCount)
		for ; i < end; i++ {
			fmt.Fprintf(&b, "%c%s\n", edits[i].op, edits[i].line)
		}
		wantLine, gotLine = wantLine+wantCount, gotLine+gotCount
	}
	return b.String()
}

type edit struct {
	op   byte // ' ', '-' or '+'
	line string
}

func nearChange(edits []edit, at int) bool {
	return slices.ContainsFunc(edits[max(0, at-diffContext):min(len(edits), at+diffContext+1)],
		func(e edit) bool { return e.op != ' ' })
}

// diffLines finds a longest common subsequence; scripts are short.
func diffLines(want, got []string) []edit {
	longest := make([][]int, len(want)+1)
	for i := range longest {
		longest[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var edits []edit
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			edits = append(edits, edit{' ', want[i]})
			i, j = i+1, j+1
		case i < len(want) && (j == len(got) || longest[i+1][j] >= longest[i][j+1]):
			edits = append(edits, edit{'-', want[i]})
			i++
		default:
			edits = append(edits, edit{'+', got[j]})
			j++
		}
	}
	return edits
}
