package membership

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewriteAnswers = flag.Bool("rewrite-answers", false, "write testdata/answers.txt anew")

// An answer of another server, by the letter that the table has for it. The member's own list is as of entry 10.
var answerKinds = map[byte]func(a *Answer){
	'.': func(*Answer) {},                                                     // not tried yet
	'x': func(a *Answer) { a.Tries = 1 },                                      // tried
	'g': func(a *Answer) { a.Tries = StrandedTries },                          // gone for good
	'<': func(a *Answer) { a.Conf.Index = 9 },                                 // an earlier list
	'=': func(*Answer) {},                                                     // the same list
	'>': func(a *Answer) { a.Conf.Index = 20 },                                // a later list
	'F': func(a *Answer) { a.Conf.Index = 1 << 40 },                           // one that may be made up
	'L': func(a *Answer) { a.Conf.Index, a.Lineage = 20, 5 },                  // one of another lineage
	'0': func(a *Answer) { a.Conf.Index, a.Conf.Voters = 20, []uint64{2, 3} }, // one without this member
	'R': func(a *Answer) { a.Removed, a.Tries = true, 1 },                     // this member was removed
	'r': func(a *Answer) { a.Conf.Index, a.Conf.Voters, a.Conf.Removed = 20, []uint64{2, 3}, []uint64{1} },
	'E': func(a *Answer) { a.Conf.Members = []Record{{ID: 1, Incarnation: 8}} }, // emptied
}

const silentKinds = ".xgR"

func answerOf(id uint64, kind byte) Answer {
	a := Answer{ID: id}
	if !strings.ContainsRune(silentKinds, rune(kind)) {
		a.Conf = &Conf{Index: 10, Voters: []uint64{1, 2, 3}}
	}
	answerKinds[kind](&a)
	return a
}

// situation is a member that asks: with n voters in its list, itself among them or not.
type situation struct {
	name           string
	voters         int
	learner        bool
	fresh, patient bool
	kinds          string // of the table
}

var situations = []situation{
	{name: "one of two voters", voters: 2, kinds: ".xg<=>FL0RrE"},
	{name: "one of three voters", voters: 3, kinds: ".xg<=>FL0RrE"},
	{name: "one of five voters", voters: 5, kinds: ".xg=>R"},
	{name: "a learner of two", voters: 2, learner: true, kinds: ".xg<=>FL0RrE"},
	{name: "a learner of three", voters: 3, learner: true, kinds: ".xg=>R"},
	{name: "a fresh one of three", voters: 3, fresh: true, kinds: ".xg=>LRE"},
	{name: "a first start of three", voters: 3, fresh: true, patient: true, kinds: ".xg=>LRE"},
}

// others returns how many voters the member asks.
func (s situation) others() int {
	if s.learner {
		return s.voters
	}
	return s.voters - 1
}

func (s situation) asker() *Asker {
	q := &Asker{Self: 1, Incarnation: 7, Fresh: s.fresh, Patient: s.patient, Own: Conf{Index: 10}}
	for i := range s.voters {
		q.Own.Voters = append(q.Own.Voters, uint64(i+1))
	}
	if s.learner {
		q.Own.Voters, q.Own.Learners = nil, []uint64{1}
		for i := range s.voters {
			q.Own.Voters = append(q.Own.Voters, uint64(i+2))
		}
	}
	return q
}

func (s situation) judge(kinds string) (Verdict, []Answer) {
	var answers []Answer
	for i := range len(kinds) {
		answers = append(answers, answerOf(uint64(i+2), kinds[i]))
	}
	return s.asker().Judge(answers), answers
}

// outcomeOf writes a verdict as the table has it.
func outcomeOf(v Verdict, kinds string) string {
	switch {
	case v.Removed:
		return "ends: removed"
	case v.Emptied:
		return "ends: emptied"
	case v.Adopt != nil:
		return "goes on by " + kinds[v.Adopt.ID-2:v.Adopt.ID-1]
	case v.Done:
		return "goes on"
	}
	return "waits"
}

var outcomes = []string{"waits", "goes on", "goes on by >", "goes on by F", "goes on by L", "ends: removed",
	"ends: emptied"}

// combinations calls f with all texts of n letters, in which the order of letters does not matter.
func combinations(letters string, n int, f func(string)) {
	var extend func(text string, from int)
	extend = func(text string, from int) {
		if len(text) == n {
			f(text)
			return
		}
		for i := from; i < len(letters); i++ {
			extend(text+letters[i:i+1], i)
		}
	}
	extend("", 0)
}

// What a member does with the answers of the others, for all answers: testdata/answers.txt is the table.
func TestTableOfAnswers(t *testing.T) {
	var table strings.Builder
	table.WriteString(`# What a member that asks for the list of members does with the answers of the voters that it
# knows, in any order. Its own list is as of entry 10. An answer is
#   . not there yet   x not there after an attempt   g not there after many
#   < = > the list as of an earlier entry, the same one, a later one   F as of a far later one, perhaps made up
#   L a later list of another lineage   0 a later list without the member
#   E another incarnation of the member   R the member was removed   r the same, from the list
`)
	for _, s := range situations {
		fmt.Fprintf(&table, "\n%s\n", s.name)
		rows := map[string][]string{}
		combinations(s.kinds, s.others(), func(answers string) {
			verdict, _ := s.judge(answers)
			outcome := outcomeOf(verdict, answers)
			rows[outcome] = append(rows[outcome], answers)
		})
		for _, outcome := range outcomes {
			list := rows[outcome]
			delete(rows, outcome)
			for len(list) > 0 {
				line := list[:min(len(list), 90/(s.others()+1))]
				list = list[len(line):]
				fmt.Fprintf(&table, "  %-14s %s\n", outcome, strings.Join(line, " "))
				outcome = ""
			}
		}
		if len(rows) > 0 {
			t.Errorf("%s: %v", s.name, rows)
		}
	}
	file := filepath.Join("testdata", "answers.txt")
	if *rewriteAnswers {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != table.String() {
		t.Errorf("%s differs (%v): judge it, and write it anew with -rewrite-answers", file, err)
	}
}

// What must hold of every combination of answers, in each order.
func TestRulesOfAnswers(t *testing.T) {
	letters := ".xg<=>FL0RrE"
	for _, s := range situations {
		n := s.others()
		if n > 3 {
			letters = ".xg=>FRE"
		}
		combinations(letters, n, func(answers string) {
			end, given := s.judge(answers)
			outcome := outcomeOf(end, answers)
			fail := func(rule string) { t.Errorf("%s, answers %s: %s: %s", s.name, answers, outcome, rule) }
			count := func(kinds string) (n int) {
				for _, kind := range answers {
					n += strings.Count(kinds, string(kind))
				}
				return n
			}
			lists, ending := count("<=>FL0E"), count("Rr")
			majority := s.voters/2 + 1
			if a := end.Adopt; a != nil {
				later := 0
				for _, other := range given {
					if other.Conf != nil && other.Conf.Index >= a.Conf.Index {
						later++
					}
				}
				switch {
				case a.Conf.Index <= 10 || !a.Conf.Has(1) || a.Lineage != 0 && !s.fresh:
					fail("the member cannot go on by it")
				case lists > later && later < majority && later < n:
					fail("too few know it or a later one")
				}
			}
			switch {
			case end.Removed && ending < majority && ending < n && count(".x") > 0:
				fail("one that has not answered may know better")
			case end.Removed && ending < majority && ending < n && lists > 0 && 2*ending < s.voters-1:
				fail("others say otherwise")
			case end.Emptied && !s.fresh && count("E") == 1 && lists > 1 && n > 1:
				fail("a single one ends it")
			case end.Done && !end.Removed && !end.Emptied && !s.fresh && lists+ending < majority-1:
				fail("too few have answered")
			case !end.Done && count("Rr") == 0 && lists == n:
				fail("all have answered")
			}
			reversed := []byte(answers)
			slices.Reverse(reversed)
			verdict, _ := s.judge(string(reversed))
			if other := outcomeOf(verdict, string(reversed)); other != outcome {
				fail("in another order it " + other)
			}
		})
	}
}

// A server that the operator has named is believed only where every known voter is gone for good.
func TestNamedServers(t *testing.T) {
	for _, s := range situations[:5] {
		combinations(".xg=R", s.others(), func(known string) {
			for _, kind := range ".x=>FL0" {
				verdict, answers := s.judge(known)
				before := outcomeOf(verdict, known)
				named := answerOf(0, byte(kind))
				verdict = s.asker().Judge(append(answers, named))
				if strings.Trim(known, "g") == "" && strings.ContainsRune(">F", kind) {
					if verdict.Done || verdict.Adopt == nil || verdict.Adopt.ID != 0 {
						t.Errorf("%s, answers %s, named %c: %+v", s.name, known, kind, verdict)
					}
				} else if now := outcomeOf(verdict, known); now != before {
					t.Errorf("%s, answers %s, named %c: %s, not %s", s.name, known, kind, now, before)
				}
			}
		})
	}
}
