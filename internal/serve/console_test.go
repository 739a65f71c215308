package serve

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server"
)

// withLink is a server with a console.
type withLink struct {
	Server
	asked int
}

func (s *withLink) ConsoleLink() string {
	s.asked++
	return "http://127.0.0.1:1/#key=K"
}

// TestConsoleIsOffered: a link goes to a terminal, or where it was asked for into the log; and into no file or pipe,
// nor where authentication is required. The null device stands for a terminal.
func TestConsoleIsOffered(t *testing.T) {
	terminal, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, test := range map[string]struct {
		process      Process
		mode         string
		keys, logged int
	}{
		"terminal":             {process: Process{Env: &cmdline.Env{Stderr: cmdline.Escaped(terminal)}}, keys: 1},
		"terminal with rights": {process: Process{Env: &cmdline.Env{Stderr: terminal}}, mode: server.AuthRequired},
		"file":                 {process: Process{Env: &cmdline.Env{Stderr: file}}},
		"pipe":                 {process: Process{Env: &cmdline.Env{Stderr: new(bytes.Buffer)}}},
		"log of a stand-in": {process: Process{Env: &cmdline.Env{Stderr: file}, LogConsole: true},
			mode: server.AuthRequired, keys: 1, logged: 1},
	} {
		var log bytes.Buffer
		s := &withLink{}
		test.process.offerConsole(s, Settings{Auth: AuthSettings{Mode: test.mode}},
			slog.New(slog.NewTextHandler(&log, nil)))
		if s.asked != test.keys || strings.Count(log.String(), "#key=K") != test.logged {
			t.Errorf("%s: %d keys, log %q", name, s.asked, log.String())
		}
	}
}
