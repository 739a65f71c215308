package main

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// Resources, from their making to their end: what is shown of them, and what is had of them.
func TestRateLimiterCommands(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	fails := func(args string, want ...string) {
		t.Helper()
		coordd(t, exit.Failure, append(strings.Fields(args), "--endpoint", endpoint), want...)
	}
	does(t, endpoint, "ratelimiter ls app -o json", "[]")
	does(t, endpoint, "ratelimiter create app reports --rate 100 --burst 3", `made "reports"`)
	does(t, endpoint, "ratelimiter create app reports --rate 100 --burst 3",
		`"reports" exists already, with the same settings`)
	does(t, endpoint, "rl create app reports/daily --rate 200", `made "reports/daily"`)
	fails("rl create app reports --rate 1", `/local/app "reports": `, "different settings")
	fails("rl create app none/daily", `"none/daily"`, `Parent resource "none" doesn't exist.`)
	coordd(t, exit.NotFound, []string{"rl", "create", "none", "a", "--rate", "1", "-e", endpoint}, "/local/none: ")
	does(t, endpoint, "rl describe app reports/daily", `/local/app "reports/daily"`,
		"units per second   100, set to 200", "prefetch           0.2, not set",
		"watermark          0.75, not set")
	does(t, endpoint, "rl alter app reports --prefetch 2 --burst 0", `changed "reports"`)
	shown := parsed(t, does(t, endpoint, "rl describe app reports -o json"))
	if at(t, shown, "max_units_per_second", "set") != 100.0 ||
		at(t, shown, "prefetch_coefficient", "set") != 2.0 ||
		at(t, shown, "max_burst_size_coefficient") != 0.0 {
		t.Error(shown)
	}
	fails("rl alter app reports --rate 0", "No MaxUnitsPerSecond parameter in root resource.")
	does(t, endpoint, "rl acquire app reports/daily", `took 1 unit of "reports/daily"`)
	does(t, endpoint, "rl acquire app reports/daily 1000001 --used",
		`took 1000001 units of "reports/daily", used before`)
	for _, args := range []string{"rl acquire app reports/daily 5 -n",
		"rl acquire app reports/daily 5 --timeout 50ms"} {
		coordd(t, exit.Conflict, append(strings.Fields(args), "--endpoint", endpoint),
			`"reports/daily": there are not 5 units to be had now; nothing was taken`)
	}
	coordd(t, exit.NotFound, []string{"rl", "acquire", "app", "none", "-e", endpoint},
		`/local/app has no resource "none"`,
		"coordd ratelimiter create app none --rate UNITS")
	shown = parsed(t, does(t, endpoint, "rl describe app reports/daily -o json"))
	if level, _ := at(t, shown, "buckets", 0, "level").(float64); at(t, shown, "buckets", 0,
		"granted") != 1.0 || at(t, shown, "buckets", 0, "used") != 1000001.0 ||
		at(t, shown, "buckets", 0, "asks") != true || level > -100_000 ||
		at(t, shown, "max_units_per_second", "effective") != 100.0 {
		t.Error(shown)
	}
	does(t, endpoint, "rl describe app reports/daily", "bucket of ", "granted 1, used 1000001")
	does(t, endpoint, "rl ls", "NODE", "RESOURCE", "/local/app  reports        100   -",
		"/local/app  reports/daily  100   -", " of 200  ", "1        1000001  0")
	if rows := parsed(t, does(t, endpoint, "rl ls app reports/daily -o json")); at(t, rows, 0, "together",
		"used") != 1000001.0 || len(rows.([]any)) != 1 {
		t.Error(rows)
	}
	fails("rl drop app reports", `Resource "reports" has children.`)
	does(t, endpoint, "rl drop app reports/daily", `dropped "reports/daily"`)
	for _, verb := range []string{"drop", "describe"} {
		coordd(t, exit.NotFound, []string{"rl", verb, "app", "reports/daily", "-e", endpoint}, "doesn't exist")
	}
}
