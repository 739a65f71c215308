package plant

import (
	"strings"
	"testing"
)

const healthy = `package p

const most = 3

type queue struct{ length int }

// full says whether nobody else may wait.
func (q *queue) full(more ...int) bool { return q.length+len(more) > most }

func (q *queue) empty() {
	q.length = 0
}

func any(_ int) int { return 1 }

func same[T any](t T) T { return t }
`

// TestPlant wants the defects beside the code that they replace, and this code on its lines.
func TestPlant(t *testing.T) {
	planted, name, err := plant(healthy, []Defect{
		{Name: "a", old: "> most", new: ">= most"},
		{Name: "b", old: "q.length = 0", new: "_ = 0"},
		{Name: "c", old: "+len(more)", new: ""},
	})
	if err != nil || name != "p" {
		t.Fatal(name, err)
	}
	want := strings.NewReplacer(
		"bool { return", `bool { if plantedDefect == "c" { return q.full_c(more...) };`+
			` if plantedDefect == "a" { return q.full_a(more...) }; return`,
		"empty() {", `empty() { if plantedDefect == "b" { q.empty_b(); return };`).Replace(healthy) + `
//line a:1
func (q *queue) full_a(more ...int) bool { return q.length+len(more) >= most }

//line b:1
func (q *queue) empty_b() {
	_ = 0
}

//line c:1
func (q *queue) full_c(more ...int) bool { return q.length > most }
`
	if planted != want {
		t.Errorf("got\n%s\nwant\n%s", planted, want)
	}
}

// TestNotPlanted wants every defect named that cannot be chosen at run time.
func TestNotPlanted(t *testing.T) {
	for _, c := range []struct{ old, new, problem string }{
		{"three", "3", "no longer applies"},
		{"q.length = 0", "{", "expected"},
		{"most = 3", "most = 4", "not in the body of one function"},
		{"more ...int", "more ...bool", "not in the body of one function"},
		{"}\n\nfunc any", "}\n\nfunc more() {}\n\nfunc any", "not in the body of one function"},
		{"// full says", "// says", "not in the body of one function"},
		{"return 1", "return 2", "arguments without a name"},
		{"return t ", "return *new(T) ", "parameters that are types"},
	} {
		_, _, err := plant(healthy, []Defect{{Name: "x", old: c.old, new: c.new}})
		if err == nil || !strings.Contains(err.Error(), "defect x") ||
			!strings.Contains(err.Error(), c.problem) {
			t.Errorf("%q for %q: %v", c.new, c.old, err)
		}
	}
}
