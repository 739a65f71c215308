package conformance

import (
	"slices"
	"strings"
	"testing"
)

const head = "# What it shows.\n# rule: coordination §3.4 8c\n\n"

func TestParse(t *testing.T) {
	script, err := Parse("a/b",
		"# One sentence,\n# and another.\n# rule: coordination §3.4 8c, §3.5 1\n# rule: surface §4 entry\n"+
			"# differs: a little\n# limits: sessions=2\n# needs: wire\n\n# A step.\ns1: start\n"+
			"+ s1: acquire \"a b\" count=2\n----\ns1 <- acquired\n\nhold\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := "One sentence, and another."; script.Title != want {
		t.Errorf("title is %q, want %q", script.Title, want)
	}
	if want := []string{"coordination §3.4 8c", "coordination §3.5 1",
		"surface §4 entry"}; !slices.Equal(script.Rules, want) {
		t.Errorf("rules are %q, want %q", script.Rules, want)
	}
	if want := []Need{NeedHold, NeedLimits, NeedWire}; !slices.Equal(script.Needs, want) {
		t.Errorf("needs are %q, want %q", script.Needs, want)
	}
	if script.Limits.Sessions != 2 || script.Limits.Semaphores != 1_000_000 {
		t.Errorf("limits are %+v", script.Limits)
	}
	if len(script.steps) != 2 || len(script.steps[0].requests) != 2 || !script.steps[0].requests[1].together {
		t.Errorf("steps are %+v", script.steps)
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no head", "s1: start\n", "no sentence"},
		{"no rule", "# What it shows.\n\ns1: start\n", "no rule"},
		{"no steps", head, "no steps"},
		{"rule without section", "# A.\n# rule: coordination 3\n\ns1: start\n", "does not begin with §"},
		{"rule without document", "# A.\n# rule: §3\n\ns1: start\n", "want a document"},
		{"head too late", head + "s1: start\n\n# needs: clock\ns1: stop\n", "belongs to the head"},
		{"comment among requests", head + "s1: start\n# now\ns1: stop\n", "not a request"},
		{"message among requests", head + "s1: start\n----\nfoo\n", "not a message"},
		{"wrong dashes", head + "s1: start\n---- somehow\n", "in any order"},
		{"open quote", head + "s1: acquire \"door\n", "not closed"},
		{"key twice", head + "s1: acquire door count=1 count=2\n", "given twice"},
		{"unknown limit", "# A.\n# rule: a §1\n# limits: streams=1\n\ns1: start\n", "no limit"},
		{"unknown ids", "# A.\n# rule: a §1\n# ids: some\n\ns1: start\n", "want exact"},
	} {
		if _, err := Parse("x", test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}

// TestBadRequests runs scripts that can be read, but not carried out.
func TestBadRequests(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"s1: jump", `unknown verb "jump"`},
		{"s1: start tiemout=5s", "unexpected tiemout="},
		{"s1: start now", `unexpected "now"`},
		{"s1: start timeout=soon", "want milliseconds"},
		{"s1: start session=s9", "no session s9"},
		{"s1: acquire", "a word is missing"},
		{"s1: acquire door count=many", "invalid syntax"},
		{"s1: ping loudly", "invalid syntax"},
		{"s1: no answer", "unknown request"},
		{"node paint {dir}/n", "unknown call"},
		{"node create {dir}/n colour=red", "unexpected colour="},
		{"dance", "unknown request"},
		{"wait long", "want milliseconds"},
	} {
		script, err := Parse("x", head+"s0: start\n\n"+test.line+"\n")
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		if _, err = Run(t.Context(), &Pure{}, script); err == nil ||
			!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "line 6") {
			t.Errorf("%s: got %v, want an error of line 6 with %q", test.line, err, test.want)
		}
	}
}

func TestDataNotation(t *testing.T) {
	for _, test := range []struct{ value, data, shown string }{
		{`word`, "word", `"word"`},
		{`"two words"`, "two words", `"two words"`},
		{`"a\"b\\c"`, `a"b\c`, `"a\"b\\c"`},
		{`0x00ff`, "\x00\xff", `0x00ff`},
		{`{3*x}`, "xxx", `"xxx"`},
		{`{1000*x}`, strings.Repeat("x", 1000), `{1000*x}`},
		{`a/{3*b/}c`, "a/b/b/b/c", `"a/b/b/b/c"`},
		{`{200*xy}`, strings.Repeat("xy", 200), `(400 bytes)`},
	} {
		data, err := parseText(test.value)
		if err != nil || data != test.data {
			t.Errorf("%s reads as %q, %v; want %q", test.value, data, err, test.data)
		}
		if shown := showData(data); shown != test.shown {
			t.Errorf("%s is shown as %s, want %s", test.value, shown, test.shown)
		}
	}
}

func TestTimeNotation(t *testing.T) {
	for _, test := range []struct {
		value  string
		millis uint64
		shown  string
	}{
		{"0", 0, "0ms"}, {"15", 15, "15ms"}, {"2s", 2000, "2s"}, {"1500ms", 1500, "1500ms"},
		{"24h", 86_400_000, "86400s"},
		{"inf", 1<<64 - 1, "inf"},
	} {
		millis, err := parseMillis(test.value)
		if err != nil || millis != test.millis {
			t.Errorf("%s reads as %d, %v; want %d", test.value, millis, err, test.millis)
		}
		if shown := ShowMillis(millis); shown != test.shown {
			t.Errorf("%s is shown as %s, want %s", test.value, shown, test.shown)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		want, got string
		match     bool
	}{
		{"acquired", "acquired", true},
		{"acquired", "acquired later", false},
		{"a ... b", "a x b", true},
		{"a ... b", "a  b", true},
		{"a ... b", "a b", false},
		{"...", "", true},
		{"...b...c", "abbc", true},
		{"...b...c", "abcd", false},
		{"a......", "a", true},
	} {
		if matches(test.want, test.got) != test.match {
			t.Errorf("matches(%q, %q) is %v", test.want, test.got, !test.match)
		}
	}
}
