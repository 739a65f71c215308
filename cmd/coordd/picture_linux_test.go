package main

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// pictureFile is README's picture of two terminals.
const pictureFile = "docs/img/lock.svg"

// screen is a terminal as wide as any line.
type screen struct {
	mutex sync.Mutex
	lines []string
	rest  []byte // the beginning of an escape sequence
}

// Write shows what a program prints. Of escape sequences it knows the one that empties a line.
func (s *screen) Write(text []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.lines) == 0 {
		s.lines = []string{""}
	}
	left := append(s.rest, text...)
	for len(left) > 0 {
		last := &s.lines[len(s.lines)-1]
		switch {
		case left[0] == '\n':
			s.lines = append(s.lines, "")
		case left[0] == '\r':
		case bytes.HasPrefix([]byte("\x1b[K"), left[:min(len(left), 3)]):
			if len(left) < 3 {
				s.rest = bytes.Clone(left)
				return len(text), nil
			}
			*last, left = "", left[2:]
		default:
			*last += string(left[:1])
		}
		left = left[1:]
	}
	s.rest = nil
	return len(text), nil
}

func (s *screen) shown() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.lines)
}

// startAt starts a program at a pseudo-terminal, whose output the screen shows.
func startAt(t *testing.T, s *screen, command *exec.Cmd) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT TESTED: README's picture, since there is no pseudo-terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	fmt.Fprintf(s, "$ coordd %s\n", strings.Join(command.Args[1:], " "))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var ended sync.WaitGroup
	ended.Go(func() {
		for buffer := make([]byte, 4096); ; {
			n, err := master.Read(buffer)
			_, _ = s.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		master.Close()
		ended.Wait()
	})
}

// TestPicture wants README's picture to show what the commands print: a lock whose holder is killed.
func TestPicture(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	folder := t.TempDir()
	script := "#!/bin/sh\necho \"the report begins, with token $COORDD_FENCING_TOKEN\"\nexec sleep 600\n"
	if err := os.WriteFile(filepath.Join(folder, "report.sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	screens := []*screen{new(screen), new(screen)}
	var frames [][][]string
	until := func(terminal int, text string) {
		t.Helper()
		waitFor(t, text, func() bool { return strings.Contains(strings.Join(screens[terminal].shown(), "\n"), text) })
		frames = append(frames, [][]string{screens[0].shown(), screens[1].shown()})
	}
	program, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	lock := func(terminal int, host string) *exec.Cmd {
		command := exec.Command(program, "lock", "app", "nightly-report", "--data", host, "--session-timeout", "3s",
			"--", "./report.sh")
		command.Dir, command.Env = folder, append(os.Environ(), "COORDD_ENDPOINT="+endpoint)
		startAt(t, screens[terminal], command)
		return command
	}
	first := lock(0, "web-1")
	frames = append(frames, [][]string{{screens[0].shown()[0]}, nil})
	until(0, "with token")
	lock(1, "web-2")
	frames = append(frames, [][]string{screens[0].shown(), {screens[1].shown()[0]}})
	until(1, "held by session 1")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(screens[0], "Killed") // as a shell reports it
	until(0, "Killed")
	until(1, "with token")

	made := picture(frames)
	if *update {
		if err := os.WriteFile(filepath.Join(root, pictureFile), []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if made != readFile(t, pictureFile) {
		t.Errorf("%s shows something else than the commands print: go test ./cmd/coordd -run TestPicture -update\n%s",
			pictureFile, strings.Join(append(screens[0].shown(), screens[1].shown()...), "\n"))
	}
}

// The measures of the picture, in pixels, and the times, in seconds.
const (
	pictureWidth = 760
	lineHeight   = 20
	titleHeight  = 30
	rows         = 4
	frameTime    = 2
	lastTime     = 5
)

// picture draws the frames of two terminals, one below the other, as an SVG whose lines come and go by CSS. With
// reduced motion it is the last frame.
func picture(frames [][][]string) string {
	length := (len(frames)-1)*frameTime + lastTime
	height := 2 * (titleHeight + rows*lineHeight)
	var style, body strings.Builder
	for terminal, title := range []string{"web-1", "web-2"} {
		top := terminal * (titleHeight + rows*lineHeight)
		fmt.Fprintf(&body, "<text class=\"title\" x=\"16\" y=\"%d\">%s</text>\n", top+20, title)
		for row := range rows {
			for from := 0; from < len(frames); {
				text, to := cell(frames[from][terminal], row), from+1
				for to < len(frames) && cell(frames[to][terminal], row) == text {
					to++
				}
				if text != "" {
					name, end := fmt.Sprintf("l%d%d%d", terminal, row, from), 100*float64(to*frameTime)/float64(length)
					if to == len(frames) {
						end = 100
					}
					fmt.Fprintf(&style, "@keyframes %s{0%%{opacity:0}%.2f%%{opacity:1}%.2f%%{opacity:%d}}\n"+
						".%s{animation-name:%s}\n", name, 100*float64(from*frameTime)/float64(length), end,
						map[bool]int{true: 1}[to == len(frames)], name, name)
					class := name
					if to < len(frames) {
						class += " gone"
					}
					fmt.Fprintf(&body, "<text class=\"%s\" x=\"16\" y=\"%d\">%s</text>\n", class,
						top+titleHeight+row*lineHeight+15, html.EscapeString(text))
				}
				from = to
			}
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" role="img">
<title>Two terminals run a command under one lock; the first is killed, and the second takes over</title>
<style>
text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre;animation:%[3]ds step-end infinite}
.title{fill:#8b949e;animation:none}
%[4]s@media (prefers-reduced-motion:reduce){text{animation:none}.gone{opacity:0}}
</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
<path d="M0 %[5]dH%[1]d" stroke="#30363d"/>
%[6]s</svg>
`, pictureWidth, height, length, style.String(), height/2, body.String())
}

// cell is a row of a terminal, "" below the last.
func cell(lines []string, row int) string {
	if row < len(lines) {
		return lines[row]
	}
	return ""
}
