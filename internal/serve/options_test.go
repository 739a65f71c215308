package serve

import (
	"testing"

	"github.com/coordd/coordd/internal/cmdline"
)

func TestDefaultDataDir(t *testing.T) {
	tests := []struct {
		name        string
		environment cmdline.Environment
		uid         int
		want        string
	}{
		{"root", cmdline.Environment{"HOME=/root", "XDG_STATE_HOME=/x"}, 0, "/var/lib/coordd"},
		{"state directory", cmdline.Environment{"HOME=/home/u", "XDG_STATE_HOME=/x"}, 1000, "/x/coordd"},
		{"relative state directory", cmdline.Environment{"HOME=/home/u", "XDG_STATE_HOME=x"}, 1000,
			"/home/u/.local/state/coordd"},
		{"empty state directory",
			cmdline.Environment{"HOME=/home/u", "XDG_STATE_HOME="}, 1000, "/home/u/.local/state/coordd"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := defaultDataDir(test.environment, test.uid)
			if err != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestBeyondLoopback wants a warning exactly where others can connect.
func TestBeyondLoopback(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:1": false, "127.8.8.8:1": false, "[::1]:1": false, "localhost:1": false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "192.0.2.1:1": true, "db.example:1": true,
	} {
		s := Settings{Listen: Listener(listen)}
		if got := s.Listen.reachable(); got != want {
			t.Errorf("%s: got %v, want %v", listen, got, want)
		}
	}
}
