package scheme

import (
	"fmt"
	"strings"
	"testing"
)

// permitted is a tree whose deepest path has the given number of subjects on each level below the database.
func permitted(t testing.TB, each int) (*Tree, Path) {
	t.Helper()
	tree, err := New("/local")
	if err != nil {
		t.Fatal(err)
	}
	path := Path{"local"}
	for level := 1; ; level++ {
		var grants []Action
		for i := range each {
			grants = append(grants, Action{Grant, fmt.Sprintf("%x", level*each+i), []string{read}})
		}
		if answer := tree.modifyPermissions(path, actions(grants...)); !answer.OK() {
			t.Fatal(answer)
		}
		if level == DefaultLimits().Depth {
			return tree, path
		}
		path = append(path, "d")
		if answer := tree.makeDirectory(path, "", Stamp{}); !answer.OK() {
			t.Fatal(answer)
		}
	}
}

// TestEffectiveSubjectsAreBounded fills every level of the deepest path: all subjects are shown, in the order
// of the levels, and there cannot be more of them than the limits say.
func TestEffectiveSubjectsAreBounded(t *testing.T) {
	const each = 600
	tree, path := permitted(t, each)
	depth := DefaultLimits().Depth
	lineage, answer := tree.EntryToDescribe(path)
	expect(t, "SUCCESS", answer)
	if len(lineage) != depth+1 { // and the unnamed root
		t.Errorf("the lineage has %d rows, want %d", len(lineage), depth+1)
	}
	effective := lineage.EffectivePermissions()
	if len(effective) != depth*each || len(effective) > DefaultLimits().EffectiveSubjects() {
		t.Errorf("got %d subjects, want %d; at most %d are possible", len(effective), depth*each,
			DefaultLimits().EffectiveSubjects())
	}
	for i, p := range effective {
		if want := fmt.Sprintf("%x", (depth-i/each)*each+i%each); p.Subject != want {
			t.Fatalf("subject %d is %s, want %s", i, p.Subject, want)
		}
	}
	var longest []Action
	for i := range DefaultLimits().ACLBytes/aceBytes + 1 {
		longest = append(longest, Action{Grant, fmt.Sprint("s", i), []string{read}})
	}
	if answer := tree.modifyPermissions(path, actions(longest...)); !strings.Contains(answer.String(),
		"ACL size limit exceeded") {
		t.Errorf("an entry got more subjects than EffectiveSubjects counts for a level: %s", answer)
	}
}

// A lineage is as of the moment it was taken at.
func TestLineageStaysAsItWas(t *testing.T) {
	tree := guarded(t)
	path := SplitLoose("/local/a/b/node")
	permit(t, tree, "/local/a", "alice", read)
	lineage, _ := tree.NodeToDescribe(path)
	permit(t, tree, "/local/a", "alice", write)
	permit(t, tree, "/local/a/b", "bob", list)
	if got := showPermissions(lineage.EffectivePermissions()); got != "alice:generic.read" {
		t.Errorf("got %q", got)
	}
}

func TestLineageAuthorizes(t *testing.T) {
	tree := guarded(t)
	permit(t, tree, "/local/a", "alice", list)
	for _, test := range []struct {
		path    string
		subject Subject
		denied  bool
	}{
		{"/local/a/b/node", Subject{Name: "alice"}, false},
		{"/local/a/b/node", Subject{Name: "maker"}, false},
		{"/local/a/b/node", Subject{Name: "eve"}, true},
		{"/local/a/b/node", Subject{}, true},
		{"/local/a/b/node", Subject{Exempt: true}, false},
		{"/local", Subject{Name: "alice"}, true},
		{"/local/missing", Subject{}, false},
	} {
		path := SplitLoose(test.path)
		lineage, _ := tree.EntryToDescribe(path)
		got := lineage.Authorize(path, DescribeSchema, test.subject)
		if want := tree.Authorize(path, DescribeSchema, test.subject); got.OK() == test.denied ||
			got.String() != want.String() {
			t.Errorf("%s for %+v: got %s; the tree says %s", test.path, test.subject, got, want)
		}
	}
}

// TestChildrenInPages reads a directory a few entries at a time.
func TestChildrenInPages(t *testing.T) {
	tree := guarded(t)
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("%02d", i))
		expect(t, "SUCCESS", tree.makeDirectory(Path{"local", "a", want[i]}, "", Stamp{}))
	}
	want = append(want, "b")
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page := tree.ChildrenAfter(Path{"local", "a"}, after, 10)
		if len(page) > 10 {
			t.Fatalf("a page of %d", len(page))
		}
		for _, child := range page {
			got = append(got, child.Name)
		}
		if len(page) < 10 {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
	if page := tree.ChildrenAfter(Path{"local", "a"}, "07x", 1); len(page) != 1 || page[0].Name != "08" {
		t.Errorf("after a name that is not there: %v", page)
	}
}

// BenchmarkEffectivePermissions shows the cost for a subject: it does not depend on how many there are.
func BenchmarkEffectivePermissions(b *testing.B) {
	depth := DefaultLimits().Depth
	for _, subjects := range []int{1_000, 10_000, 20_000} {
		tree, path := permitted(b, subjects/depth)
		b.Run(fmt.Sprint(subjects), func(b *testing.B) {
			b.ReportAllocs()
			shown := 0
			for b.Loop() {
				lineage, _ := tree.EntryToDescribe(path)
				shown = len(lineage.EffectivePermissions())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(shown), "ns/subject")
		})
	}
}

// BenchmarkModifyPermissions changes an entry that has as many subjects as fit, by more and more actions: the
// cost for an action does not depend on how many there are.
func BenchmarkModifyPermissions(b *testing.B) {
	const subjects = 600
	for _, number := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(number), func(b *testing.B) {
			var list []Action
			for i := range number {
				kind := Grant
				if i >= subjects && i%2 == 0 {
					kind = Revoke
				}
				list = append(list, Action{kind, fmt.Sprintf("%x", (i/2)%subjects), []string{read}})
			}
			for b.Loop() {
				tree, err := New("/local")
				if err != nil {
					b.Fatal(err)
				}
				if answer := tree.modifyPermissions(Path{"local"}, actions(list...)); !answer.OK() {
					b.Fatal(answer)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(number), "ns/action")
		})
	}
}
