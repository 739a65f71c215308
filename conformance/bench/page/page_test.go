package page

import (
	"strings"
	"testing"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	const old = "# Page\n\n<!-- a: made by `make a` -->\n\nold\n<!-- a: end -->\n\nbetween\n\n<!-- b: made by `make b` -->\n<!-- b: end -->\n"
	const want = "# Page\n\n<!-- a: made by `make a` -->\n\nnew\n\n<!-- a: end -->\n\nbetween\n\n<!-- b: made by `make b` -->\n<!-- b: end -->\n"
	for _, text := range []string{old, want} { // the second time nothing changes
		if got, err := replace(text, "a", "new\n"); err != nil || got != want {
			t.Errorf("%v, %q, want %q", err, got, want)
		}
	}
	for _, wrong := range []string{"", "<!-- a: end -->\n<!-- a: made by x -->\n", old + old} {
		if got, err := replace(wrong, "a", "new"); err == nil {
			t.Errorf("%q became %q", wrong, got)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for want, target := range map[string]Target{
		"| f | at least 0.9 | 0.90 | met |":                 {Is: 0.9, Limit: 0.9},
		"| f | at least 0.9 | 0.45 | missed by 50 % |":      {Is: 0.45, Limit: 0.9},
		"| f | at most 1.5 | 1.80 | missed by 20 % |":       {Is: 1.8, Limit: 1.5, AtMost: true},
		"| f | at most 1.5 | 1.50 | missed by 1 % |":        {Is: 1.501, Limit: 1.5, AtMost: true},
		"| f | at most 12,288 | 9,000 | met |":              {Is: 9000, Limit: 12 << 10, AtMost: true},
		"| f | at least 1 | not measured | not installed |": {Is: 2, Limit: 1, Missing: "not installed"},
	} {
		target.Figure = "f"
		if got := Targets([]Target{target}); !strings.HasSuffix(got, "\n"+want+"\n") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{1234567: "1,234,567", 1000: "1,000", 999.4: "999", 12.34: "12.3",
		1.234: "1.23", 0.012: "0.012", 0: "0.000"} {
		if got := Number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 12: "12", 999: "999", 1000: "1,000", 123456: "123,456",
		1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
