package scheme

import "testing"

func TestKindNames(t *testing.T) {
	for kind, want := range map[Kind]string{
		1: "directory", 4: "database", 7: "coordination node", 2: "kind 2",
	} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d is %q, want %q", uint8(kind), got, want)
		}
	}
}
