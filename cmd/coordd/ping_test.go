package main

import (
	"strings"
	"testing"
)

// A server says how long it takes to answer, and a session of it.
func TestPing(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	does(t, endpoint, "ping --times 1", " call ", " ms\n", "call: 1 answered, ", " ms at the median")
	out := does(t, endpoint, "ping app --times 2 --every 100ms -o jsonl")
	if lines := strings.Split(out, "\n"); len(lines) != 2 ||
		at(t, parsed(t, lines[1]), "call_millis").(float64) <= 0 ||
		at(t, parsed(t, lines[1]), "session_millis").(float64) <= 0 {
		t.Errorf("got %s", out)
	}
	if at(t, parsed(t, does(t, endpoint, "ping --times 1 -o json")), "session_millis") != nil {
		t.Error("a session is told of that nobody asked for")
	}
	coordd(t, exitFailure, []string{"ping", "none", "-e", endpoint}, "no coordination node /local/none")
	coordd(t, exitNotServing, []string{"ping", "-e", "127.0.0.1:1"}, "no server at 127.0.0.1:1")
}
