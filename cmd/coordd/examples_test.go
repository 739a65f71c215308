package main

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/conformance/testlog"
)

// withoutServer are the commands whose examples need nothing but the program.
var withoutServer = []string{"cert", "doctor", "help", "licenses", "version"}

// withServers are the commands whose examples need servers in a certain state, in the order in which
// TestExamplesOfServers runs them.
var withServers = []string{"serve", "check", "user add", "user passwd", "user list", "user rotate-key",
	"user remove", "console", "cluster add", "cluster promote", "cluster status", "node quota", "cluster limits",
	"cluster snapshot",
	"cluster transfer-leader", "cluster remove", "cluster restore", "cluster recover"}

// examples calls tell for each command that has to have examples, by its name without that of the program.
func examples(tell func(name string, command *cobra.Command)) {
	p := newRun(newFakeServer())
	leaves(newRoot(&p.Env, p.seams), func(command *cobra.Command) {
		name := strings.TrimPrefix(command.CommandPath(), "coordd ")
		// TestShells runs the scripts of cobra's own commands.
		if command.Parent().Name() != "completion" {
			tell(name, command)
		}
	})
}

// runExamples runs the lines of an example, one after the other.
func runExamples(t *testing.T, example string, run func(line string) (string, error)) {
	t.Helper()
	for line := range strings.Lines(example) {
		if output, err := run(line); err != nil {
			t.Errorf("%s: %v\n%s", strings.TrimSpace(line), err, output)
		}
	}
}

// TestExamples runs each example of each command's help, but for those that TestExamplesOfServers runs. There
// is none without.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples(func(name string, command *cobra.Command) {
		switch {
		case command.Example == "":
			t.Errorf("coordd %s has no example", name)
			return
		case slices.Contains(withServers, name):
			return
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := ""
			if !slices.Contains(withoutServer, name) {
				_, endpoint, _ = lockServer(t)
			}
			runExamples(t, command.Example, func(line string) (string, error) {
				return inShell(t, endpoint, "sh", "-c", line)
			})
		})
	})
}

// TestExamplesOfServers runs the examples of the commands that start servers and manage them: on a server
// alone, and then in the life of a cluster of two.
func TestExamplesOfServers(t *testing.T) {
	t.Parallel()
	of := make(map[string]string)
	examples(func(name string, command *cobra.Command) { of[name] = command.Example })
	place := t.TempDir()
	runExamples(t, of["serve"], func(line string) (string, error) { return serveFor(t, place, line) })
	runExamples(t, of["check"], func(line string) (string, error) {
		return shellIn(t, place, nil, "sh", "-c", line)
	})

	a, d := newClusterProcess(t, "a"), newClusterProcess(t, "d")
	a.start(t, "--initial-cluster", "a="+a.peer, "--listen-http", "127.0.0.1:0") // the usual port may be another's
	a.ready(t)
	addresses := strings.NewReplacer("d.example.com:2380", d.peer)
	survivor := filepath.Join(place, "survivor")
	before := map[string]func(){
		"cluster promote": func() { d.start(t, "--join", a.peer); d.ready(t) },
		"cluster status": func() {
			waitFor(t, "the version that both can read",
				func() bool { return a.status(t).FormatVersion >= 3 })
		},
		"cluster recover": func() {
			for _, server := range []*clusterProcess{a, d} {
				server.Kill()
				server.exit(t)
			}
			if err := os.Rename(a.directory, survivor); err != nil {
				t.Fatal(err)
			}
		},
	}
	for _, name := range withServers[2:] {
		if prepare := before[name]; prepare != nil {
			prepare()
		}
		runExamples(t, addresses.Replace(of[name]), func(line string) (string, error) {
			return shellIn(t, place, []string{"COORDD_DATA_DIR=" + a.directory}, "sh", "-c", line)
		})
	}
}

// serveFor runs a line that starts a server, stops that when it is ready, and returns what it has said. Where the line
// names no data directory, that is below the test's place.
func serveFor(t *testing.T, place, line string) (string, error) {
	t.Helper()
	command := commandIn(t.Context(), t, place,
		[]string{"COORDD_LISTEN=127.0.0.1:0", "COORDD_LISTEN_HTTP=off",
			"COORDD_DATA_DIR=" + filepath.Join(place, "served")}, "sh", "-c",
		strings.Replace(strings.TrimSpace(line), "coordd serve", "exec coordd serve", 1))
	var log testlog.Buffer
	command.Stderr = &log
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ready := bufio.NewScanner(stdout)
	if !ready.Scan() || !strings.HasPrefix(ready.Text(), "grpc://127.0.0.1:") {
		t.Errorf("%s: it says %q", strings.TrimSpace(line), ready.Text())
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = command.Wait()
	return log.String(), err
}
