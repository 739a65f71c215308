package main

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// What a batch does is what its lines say, up to the first that fails.
func TestBatch(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	batch := func(input string, want exit.Code, parts ...string) string {
		t.Helper()
		r := newRun(newFakeServer())
		r.program.stdin = strings.NewReader(input)
		r.begin("batch", "-e", endpoint)
		if code := r.wait(t); code != want {
			t.Errorf("%q: exit code %d, want %d: %s", input, code, want, r.log.String())
		}
		inOrder(t, r.log.String(), parts)
		return r.out.String()
	}
	got := batch("# two nodes\nnode create team/one\n\n  config set team/one greeting \"hello, \\\"world\\\"\" # "+
		"said\r\nconfig get team/one greeting -o jsonl", exit.OK)
	inOrder(t, got, []string{"made /local/team/one\n", `"greeting" has 14 bytes of data`,
		`{"node":"/local/team/one","name":"greeting","exists":true,"data":"hello, \"world\""}`})
	for input, want := range map[string][]string{
		"lock app x -- true": {"coordd: line 1: coordd lock cannot be in a batch", "coordd batch --help"},
		"top --times 1":      {"line 1: coordd top cannot be in a batch"},
		"batch":              {"line 1: coordd batch cannot be in a batch"},
		"node ls\nnode crate x\nnode create never": {`line 2: unknown command "crate"; did you mean create?`},
		"node":                           {"line 1: no command given; known are alter"},
		"noed ls":                        {`line 1: unknown command "noed"; did you mean node?`},
		"node ls --endpoint 127.0.0.1:1": {"line 1: the server", "those of the batch"},
		"\n\nnode create 'never":         {"line 3: the quote ' is not closed"},
		"config set app x --file -":      {"line 1: ", "stdin has the commands of the batch"},
		"node create x" + strings.Repeat("x", 4<<20): {"line 1: more than 4194304 bytes"},
	} {
		batch(input, exit.Usage, want...)
	}
	batch("node drop nosuch\nnode create never", exit.Failure, "coordd: line 1: /local/nosuch: ")
	if tree := does(t, endpoint, "node tree"); tree != "/local\n  app\n  team/\n    one" {
		t.Errorf("there is\n%s", tree)
	}
}

func TestSplitWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                    "",
		"   # nothing":        "",
		"a  b\tc":             "a|b|c",
		`a 'b c' "d e"`:       "a|b c|d e",
		`a''b "" ''`:          "ab||",
		`'a"b' "c'd" a\ b`:    `a"b|c'd|a b`,
		`"a\"b\\c\d" 'e\'`:    `a"b\c\d|e\`,
		`a#b #c`:              "a#b",
		`{"a":\ 1} \# \\ x\`:  `{a: 1}|#|\|x\`,
		"grüße 'あ い'\u2028\r": "grüße|あ い\u2028",
	} {
		words, err := splitWords(line)
		if got := strings.Join(words, "|"); got != want || err != nil {
			t.Errorf("%q is %q, want %q (%v)", line, got, want, err)
		}
	}
	for _, line := range []string{`'`, `a "b`, `"a\"`} {
		if words, err := splitWords(line); err == nil {
			t.Errorf("%q is %q", line, words)
		}
	}
}
