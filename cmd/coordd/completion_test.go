package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// inShell runs a script of a shell's in which coordd is the binary.
func inShell(t *testing.T, endpoint string, shell ...string) (string, error) {
	t.Helper()
	return shellIn(t, t.TempDir(), []string{"COORDD_ENDPOINT=" + endpoint}, shell...)
}

// shellIn is inShell in a directory that other scripts may be run in as well.
func shellIn(t *testing.T, place string, environment []string, shell ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	command := commandIn(ctx, t, place, environment, shell...)
	output, err := command.CombinedOutput()
	return string(output), err
}

func commandIn(ctx context.Context, t *testing.T, place string, environment []string, argv ...string) *exec.Cmd {
	t.Helper()
	if err := os.Symlink(absolute(t, binary), filepath.Join(place, "coordd")); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir = place
	command.Env = append([]string{"HOME=" + place, "PATH=" + place + ":" + os.Getenv("PATH"), "HOSTNAME=here",
		"TERM=dumb"}, environment...)
	return command
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// What a shell offers for an argument are the nodes, semaphores and sessions that the server has.
func TestCompletion(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	does(t, endpoint, "node create team/other", "made")
	s := sessionOf(t, c)
	for _, name := range []string{"door", "doorbell", "window", "not one word"} {
		if err := s.Create(t.Context(), name, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	does(t, endpoint, "rl create app reports --rate 1", "made")
	does(t, endpoint, "rl create app reports/daily", "made")
	for _, test := range []struct {
		args string
		want []string
	}{
		{"ratelimiter acquire app re%", []string{"reports", "reports/daily"}},
		{"rl drop app reports/%", []string{"reports/daily"}},
		{"rl create app re%", nil},
		{"rl ls te%", []string{"team/other"}},
		{"lock %", []string{"app", "team/other"}},
		{"lock /local/t%", []string{"/local/team/other"}},
		{"lock app %", []string{"door", "doorbell", "window"}},
		{"lock app d%", []string{"door", "doorbell"}},
		{"sem show /local/app w%", []string{"window"}},
		{"config watch app w%", []string{"window"}},
		{"node show te%", []string{"team/other"}},
		{"node create te%", nil},
		{"sem create app do%", nil},
		{"session kill app %", []string{"1"}},
		{"sem ls app -o %", []string{"table", "json", "jsonl"}},
		{"semaphore take-over app w%", []string{"window"}},
		{"sess%", []string{"session"}},
		{"semaphore cr%", []string{"create"}},
	} {
		var words []string
		args := strings.Fields(test.args)
		last := strings.TrimSuffix(args[len(args)-1], "%")
		got := runBinary(t, []string{"COORDD_ENDPOINT=" + endpoint},
			append(append([]string{"__complete"}, args[:len(args)-1]...), last)...)
		for line := range strings.Lines(got.stdout) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
				words = append(words, word)
			}
		}
		if got.code != exit.OK || !slices.Equal(words, test.want) {
			t.Errorf("%q: exit code %d, offered are %q, want %q", test.args, got.code, words, test.want)
		}
	}
	p := spawn(t, "__complete", "lock", "--endpoint", "127.0.0.1:1", "")
	if code, lines := p.exit(t); code != exit.OK || len(lines) != 1 {
		t.Errorf("without a server: exit code %d, %q", code, lines)
	}
}

// The scripts for the three shells ask the program and offer what it says. A shell that is not installed is
// left out.
func TestShells(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	if err := sessionOf(t, c).Create(t.Context(), "printers", 3, nil); err != nil {
		t.Fatal(err)
	}
	const bash = `for f in /usr/share/bash-completion/bash_completion /etc/bash_completion; do
	[ -r $f ] && . $f && break
done
type _get_comp_words_by_ref >/dev/null 2>&1 || exit 77
. <(coordd completion bash)
COMP_WORDS=(coordd lock app ""); COMP_CWORD=3; COMP_LINE="coordd lock app "; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_coordd; printf "offered %s\n" "${COMPREPLY[@]}"`
	const zsh = `compdef() { : }; _describe() { print -l -- "offered ${completions[@]}" }
. <(coordd completion zsh)
words=(coordd lock app ""); CURRENT=4; _coordd`
	const fish = `coordd completion fish | source
for word in (complete -C "coordd lock app "); echo "offered $word"; end`
	for _, shell := range []struct{ name, script string }{{"bash", bash}, {"zsh", zsh}, {"fish", fish}} {
		t.Run(shell.name, func(t *testing.T) {
			if _, err := exec.LookPath(shell.name); err != nil {
				t.Skip(err)
			}
			output, err := inShell(t, endpoint, shell.name, "-c", shell.script)
			if ended, ok := err.(*exec.ExitError); ok && ended.ExitCode() == 77 {
				t.Skip("bash has no package bash-completion here")
			}
			if err != nil || !strings.Contains(output, "offered printers") {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}
