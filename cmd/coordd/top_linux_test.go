package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/protocol"
)

// openTerminal makes a terminal. What is written to user is typed, and what the program prints comes out of it.
func openTerminal(t *testing.T, columns, lines int) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	resize(t, program, columns, lines)
	return user, program
}

func resize(t *testing.T, terminal *os.File, columns, lines int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: uint16(columns), Row: uint16(lines)}); err != nil {
		t.Fatal(err)
	}
}

// echoes reports whether a terminal shows what is typed: a program that reads keys takes that away.
func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// screens returns the pictures that were drawn one after the other, the last of which may not be whole.
func screens(drawn string) []string { return strings.Split(drawn, "\x1b[H") }

// TestTopAtATerminal presses keys: what is shown fits the terminal, also after it has changed, and the terminal is as
// before at the end, and while the program is suspended.
func TestTopAtATerminal(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	for i := range 60 {
		name := fmt.Sprintf("lock %02d %s", i, strings.Repeat("long ", 20))
		got, err := s.Acquire(t.Context(), protocol.Acquisition{Name: name, Count: 1 << 63, Ephemeral: true})
		if !got || err != nil {
			t.Fatal(got, err)
		}
	}
	user, terminal := openTerminal(t, 80, 24)
	var drawn testlog.Buffer
	go func() {
		piece := make([]byte, 4096)
		for {
			n, err := user.Read(piece)
			if err != nil {
				return
			}
			drawn.Write(piece[:n])
		}
	}()
	command := exec.CommandContext(t.Context(), binary, "top", "--every", "1h", "--endpoint", endpoint)
	command.Env = []string{"HOME=" + t.TempDir()}
	command.Stdin, command.Stdout, command.Stderr = terminal, terminal, terminal
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that somebody could resume it
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	// shows waits for a whole picture with a text, and measures it.
	shows := func(text string, columns, lines int) {
		t.Helper()
		waitFor(t, text, func() bool {
			all := screens(drawn.String())
			last := all[len(all)-1]
			return strings.Contains(last, text) && strings.Contains(last, "\x1b[J")
		})
		all := screens(drawn.String())
		picture, _, _ := strings.Cut(all[len(all)-1], "\x1b[J")
		rows := strings.Split(picture, "\r\n")
		if len(rows) != lines {
			t.Errorf("%q: %d lines of %d: %q", text, len(rows), lines, picture)
		}
		for _, row := range rows {
			if row = strings.TrimSuffix(row, "\x1b[K"); len([]rune(row)) > columns {
				t.Errorf("%q: a line of %d: %q", text, len([]rune(row)), row)
			}
		}
	}
	press := func(keys string) {
		t.Helper()
		if _, err := user.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	shows("longest wait first", 80, 24)
	shows("there are more", 80, 24)
	if echoes(t, terminal) {
		t.Error("keys are shown while it draws")
	}
	press("h")
	shows("longest held first", 80, 24)
	press("/lock 07")
	shows(`only with "lock 07"`, 80, 24)
	press("\x7f3\r")
	shows(`only with "lock 03"`, 80, 24)
	press("\x1b")
	press("n")
	shows("by name; there are more, at 2", 80, 24)
	resize(t, terminal, 200, 50)
	command.Process.Signal(syscall.SIGWINCH)
	waitFor(t, "a larger picture", func() bool {
		all := screens(drawn.String())
		return strings.Count(all[len(all)-1], "\r\n") == 49
	})
	shows("by name", 200, 50)

	for _, suspend := range []func(){func() { press("\x1a") }, func() { command.Process.Signal(syscall.SIGTSTP) }} {
		suspend()
		var status syscall.WaitStatus
		for !status.Stopped() {
			if _, err := syscall.Wait4(command.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
				t.Fatal(err)
			}
		}
		if !echoes(t, terminal) {
			t.Error("keys are not shown while it is suspended")
		}
		before := len(drawn.String())
		command.Process.Signal(syscall.SIGCONT)
		waitFor(t, "another picture", func() bool { return strings.Contains(drawn.String()[before:], "q: end") })
		if echoes(t, terminal) {
			t.Error("keys are shown after it was resumed")
		}
	}
	go func() { ended <- command.Wait() }()
	press("q")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v: %q", err, drawn.String())
		}
	case <-time.After(waitMax):
		t.Fatalf("q does not end it: %q", drawn.String())
	}
	if !echoes(t, terminal) || !strings.Contains(drawn.String(), "\x1b[?25h") {
		t.Error("the terminal is not as before")
	}
}
