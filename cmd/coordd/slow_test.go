package main

import (
	"strings"
	"testing"
)

// TestSlow shows a request of another command, in a table and as a line of json.
func TestSlow(t *testing.T) {
	t.Parallel()
	endpoint := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off").ready(t)
	does(t, endpoint, "slow")
	does(t, endpoint, "node create app", "made")
	does(t, endpoint, "sem create app door --limit 1", "made")
	does(t, endpoint, "slow --since 1000000h", "REQUEST", "create   /local/app", `"door"`, " ms")
	lines := strings.Split(strings.TrimSpace(does(t, endpoint, "slow --limit 1 -o jsonl")), "\n")
	row := parsed(t, lines[0])
	if len(lines) != 1 || at(t, row, "node") != "/local/app" || at(t, row, "semaphore") != "door" ||
		at(t, row, "total_millis").(float64) <= 0 || at(t, row, "session").(float64) == 0 ||
		len(at(t, row, "stages_millis").(map[string]any)) == 0 || at(t, row, "window", "longest_turn_millis") == nil ||
		at(t, row, "cause") == "" {
		t.Errorf("got %v", row)
	}
}
