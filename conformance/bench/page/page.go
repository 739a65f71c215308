// Package page writes what was measured into the documentation: pieces of Markdown between two marks each,
// which are made anew by every run, and the tables of targets.
package page

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// Replace puts text in the place of what is between the marks of a name in a file:
//
//	<!-- NAME: made by COMMAND -->
//	<!-- NAME: end -->
func Replace(file, name, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	made, err := replace(string(old), name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(made), 0o644)
}

func replace(old, name, text string) (string, error) {
	begin, end := "<!-- "+name+": made by ", "<!-- "+name+": end -->"
	if strings.Count(old, begin) != 1 || strings.Count(old, end) != 1 {
		return "", fmt.Errorf("want the marks %q and %q once each", begin, end)
	}
	head, rest, _ := strings.Cut(old, begin)
	mark, rest, _ := strings.Cut(rest, "\n")
	_, tail, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("the mark %q comes before the other one", end)
	}
	return head + begin + mark + "\n\n" + strings.Trim(text, "\n") + "\n\n" + end + tail, nil
}

// Target is one figure that is to be reached.
type Target struct {
	Figure  string
	Limit   float64 // the figure is to be at least that, or at most
	AtMost  bool
	Is      float64
	Missing string // why it was not measured, empty if it was
}

// Targets is a table of targets: the limit, what was measured, and whether that is enough or by how much it is not.
func Targets(all []Target) string {
	var b strings.Builder
	b.WriteString("| figure | target | measured | |\n| --- | --- | --- | --- |\n")
	for _, t := range all {
		wanted, measured, verdict := "at least ", Number(t.Is), t.verdict()
		if t.AtMost {
			wanted = "at most "
		}
		if t.Missing != "" {
			measured, verdict = "not measured", t.Missing
		}
		limit := strconv.FormatFloat(t.Limit, 'f', -1, 64)
		if t.Limit >= 1000 {
			limit = Number(t.Limit)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.Figure, wanted+limit, measured, verdict)
	}
	return b.String()
}

func (t Target) verdict() string {
	if t.AtMost && t.Is <= t.Limit || !t.AtMost && t.Is >= t.Limit {
		return "met"
	}
	return fmt.Sprintf("missed by %.0f %%", max(1, 100*max(t.Is/t.Limit-1, 1-t.Is/t.Limit)))
}

// Count writes a whole number, thousands apart.
func Count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Number writes a figure with the digits that a measurement has, thousands apart.
func Number(v float64) string {
	switch {
	case v >= 1000:
		return Count(int(math.Round(v)))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
