package rig

import (
	"maps"
	"slices"
	"testing"
)

// Marks counts the situations that histories have come by.
type Marks map[string]int

// Add adds those of another history.
func (m Marks) Add(other Marks) {
	for mark, n := range other {
		m[mark] += n
	}
}

// Report logs all, and fails the test for each of the wanted ones that no history has come by.
func (m Marks) Report(t *testing.T, wanted ...string) {
	t.Helper()
	for _, mark := range slices.Sorted(maps.Keys(m)) {
		t.Logf("%7d  %s", m[mark], mark)
	}
	for _, mark := range wanted {
		if m[mark] == 0 {
			t.Errorf("never reached: %s", mark)
		}
	}
}
