package cmdline

import (
	"testing"
)

func TestClosest(t *testing.T) {
	candidates := []string{"serve", "check", "help", "version"}
	for name, want := range map[string]string{
		"serv": "serve", "srve": "serve", "sevre": "serve", "chekc": "check", "hepl": "help",
		"versoin": "version", "start": "", "": "", "x": "",
	} {
		if got := Closest(name, candidates); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
