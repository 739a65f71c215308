package check

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestTenures(t *testing.T) {
	const second = time.Second
	limits := func(name string) uint64 {
		switch name {
		case "ephemeral":
			return math.MaxUint64
		case "unknown":
			return 0
		}
		return uint64(len(name))
	}
	cases := map[string]struct {
		tenures []Tenure
		found   string
	}{
		"one after the other": {[]Tenure{{"a", 1, 1, 3, 0, second}, {"a", 2, 1, 4, second, 2 * second}}, ""},
		"within the margin": {[]Tenure{{"a", 1, 1, 3, 0, second},
			{"a", 2, 1, 4, second - second/10, 2 * second}}, ""},
		"two at once": {[]Tenure{{"a", 2, 1, 4, second / 2, 2 * second}, {"a", 1, 1, 3, 0, second}},
			"2 tokens of a"},
		"two of two": {[]Tenure{{"ab", 1, 1, 4, 0, second}, {"ab", 2, 1, 3, second / 2, 2 * second}}, ""},
		"three of two": {[]Tenure{{"ab", 1, 1, 0, 0, 3 * second}, {"ab", 2, 2, 0, second / 2, 2 * second}},
			"3 tokens of ab"},
		"other semaphores": {[]Tenure{{"a", 1, 1, 5, 0, second}, {"b", 2, 1, 4, second / 2, 2 * second}}, ""},
		"order goes back": {[]Tenure{{"a", 1, 1, 4, 0, second}, {"a", 2, 1, 3, 2 * second, 3 * second}},
			"followed by 3"},
		"two with everything": {[]Tenure{{"ephemeral", 1, math.MaxUint64, 0, 0, second},
			{"ephemeral", 2, math.MaxUint64, 0, second / 2, 2 * second}}, "tokens of ephemeral"},
		"unknown limit": {[]Tenure{{"unknown", 1, 1, 4, 0, second}, {"unknown", 2, 1, 3, 0, second}}, ""},
	}
	for name, c := range cases {
		err := Tenures(c.tenures, limits, 200*time.Millisecond)
		if (err == nil) != (c.found == "") || err != nil && !strings.Contains(err.Error(), c.found) {
			t.Errorf("%s: %v, want %q", name, err, c.found)
		}
	}
}
