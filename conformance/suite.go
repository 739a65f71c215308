package conformance

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Selection selects the scripts to run. The zero value selects all.
type Selection struct {
	Name *regexp.Regexp // that the name must match; nil matches all
	Tags []string       // of which a script must have at least one; empty asks for none
}

// Select returns the scripts that the selection means, in their order.
func (s Selection) Select(scripts []*Script) []*Script {
	return slices.DeleteFunc(slices.Clone(scripts), func(script *Script) bool {
		return s.Name != nil && !s.Name.MatchString(script.Name) ||
			len(s.Tags) > 0 && !slices.ContainsFunc(s.Tags,
				func(tag string) bool { return slices.Contains(script.Tags(), tag) })
	})
}

// Tags are the words by which a script can be chosen: its folder, what it needs of a target, and "differs" if
// coordd differs from YDB in what it shows.
func (s *Script) Tags() []string {
	folder, _, _ := strings.Cut(s.Name, "/")
	tags := []string{folder}
	for _, need := range s.Needs {
		tags = append(tags, string(need))
	}
	if len(s.Differs) > 0 {
		tags = append(tags, "differs")
	}
	return tags
}

// Section is the section of the specification that a script's first rule stands in, such as "coordination
// §3.4".
func (s *Script) Section() string {
	if len(s.Rules) == 0 {
		return "recorded"
	}
	fields := strings.Fields(s.Rules[0])
	return strings.TrimSuffix(strings.Join(fields[:min(2, len(fields))], " "), ":")
}

// Result is the result of one script in a run of many.
type Result struct {
	Script  *Script
	Outcome Outcome
	Err     error // why the script could not be carried out; nil if it was
	Took    time.Duration
}

// Verdict is a result in one word.
type Verdict string

// The verdicts.
const (
	Same    Verdict = "same"
	Skipped Verdict = "skipped"
	Differs Verdict = "differs"
	Broken  Verdict = "broken" // the script could not be carried out
)

// Verdict sums the result up.
func (r *Result) Verdict() Verdict {
	switch {
	case r.Err != nil:
		return Broken
	case r.Outcome.Skipped != "":
		return Skipped
	case r.Outcome.Diff != "":
		return Differs
	}
	return Same
}

// RunAll replays scripts one after another and calls each with every result as it comes. It stops early when
// ctx ends.
func RunAll(ctx context.Context, target Target, scripts []*Script, each func(Result)) []Result {
	var results []Result
	for _, script := range scripts {
		if ctx.Err() != nil {
			break
		}
		began := time.Now()
		outcome, err := Run(ctx, target, script)
		result := Result{Script: script, Outcome: outcome, Err: err, Took: time.Since(began)}
		results = append(results, result)
		each(result)
	}
	return results
}

// Failed counts the results that are neither the same nor skipped.
func Failed(results []Result) int {
	failed := 0
	for i := range results {
		if v := results[i].Verdict(); v == Differs || v == Broken {
			failed++
		}
	}
	return failed
}

// sum is a line of the summary.
type sum struct {
	section                        string
	same, differs, broken, skipped int
}

func (s *sum) add(v Verdict) {
	switch v {
	case Same:
		s.same++
	case Differs:
		s.differs++
	case Broken:
		s.broken++
	case Skipped:
		s.skipped++
	}
}

// PrintSummary writes a table of how many scripts of each section had which verdict, why scripts were
// skipped, and how many of the differences are known ones between coordd and YDB.
func PrintSummary(w io.Writer, results []Result) error {
	total := sum{section: "all"}
	var sections []sum
	reasons := make(map[string]int)
	known := 0
	for i := range results {
		r := &results[i]
		section := r.Script.Section()
		at := slices.IndexFunc(sections, func(s sum) bool { return s.section == section })
		if at < 0 {
			at = len(sections)
			sections = append(sections, sum{section: section})
		}
		sections[at].add(r.Verdict())
		total.add(r.Verdict())
		if r.Verdict() == Differs && len(r.Script.Differs) > 0 {
			known++
		}
		if r.Verdict() == Skipped {
			reasons[r.Outcome.Skipped]++
		}
	}
	slices.SortFunc(sections, func(a, b sum) int { return compareSections(a.section, b.section) })
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %6s %8s %7s %8s\n", "section", "same", "differs", "broken", "skipped")
	for _, s := range append(sections, total) {
		fmt.Fprintf(&b, "%-22s %6d %8d %7d %8d\n", s.section, s.same, s.differs, s.broken, s.skipped)
	}
	for _, reason := range sortedKeys(reasons) {
		fmt.Fprintf(&b, "skipped: %d because the script %s\n", reasons[reason], reason)
	}
	if known > 0 {
		fmt.Fprintf(&b, "%d of the differing scripts show where coordd is known to differ from YDB\n", known)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var number = regexp.MustCompile(`\d+`)

// compareSections puts §2.10 behind §2.9.
func compareSections(a, b string) int {
	wide := func(section string) string {
		return number.ReplaceAllStringFunc(section,
			func(digits string) string { return fmt.Sprintf("%4s", digits) })
	}
	return cmp.Compare(wide(a), wide(b))
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
