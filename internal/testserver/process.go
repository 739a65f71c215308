package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// startPatience bounds the wait for the first line of a process, which a server prints when it serves; only a
	// failing test uses it up.
	startPatience = 3 * time.Minute
	// stopPatience is just below the time after which a server gives up a clean stop by itself.
	stopPatience = 7 * time.Second
)

// Config describes a process.
type Config struct {
	// Program is the file to run.
	Program string
	// Args are the arguments, such as "serve", "--in-memory".
	Args []string
	// Env is the environment; nil stands for that of the test.
	Env []string
	// Stdin may be nil. With OpenStdin, Process.Stdin is a pipe to it.
	Stdin     io.Reader
	OpenStdin bool
	// Line, if it is not nil, is called with each line of standard output as it comes, and no line is kept.
	Line func(string)
	// Log is the file to which the process appends what it writes to standard error, and with LogStdout what it writes
	// to standard output.
	Log       string
	LogStdout bool
}

// Process is one run of a program, from its start to its end.
type Process struct {
	Command *exec.Cmd
	Log     string         // the file
	Stdin   io.WriteCloser // nil without Config.OpenStdin

	said    chan struct{} // closed once first is set
	first   string        // line of standard output, "" before it has come
	ended   chan struct{}
	lines   []string    // all of them, once ended is closed
	stopped atomic.Bool // by Pause
}

// Start starts a process. The system kills it when the test binary ends, however that ends.
func Start(c Config) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{Command: exec.Command(c.Program, c.Args...), Log: c.Log, said: make(chan struct{}),
		ended: make(chan struct{})}
	p.Command.Env, p.Command.Stdin, p.Command.Stderr = c.Env, c.Stdin, log
	if c.OpenStdin {
		if p.Stdin, err = p.Command.StdinPipe(); err != nil {
			return nil, err
		}
	}
	var stdout io.Reader = strings.NewReader("")
	if c.LogStdout {
		p.Command.Stdout = log
	} else if stdout, err = p.Command.StdoutPipe(); err != nil {
		return nil, err
	}
	dieWithParent(p.Command)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // its end would be that of the process
		defer runtime.UnlockOSThread()
		err := p.Command.Start()
		started <- err
		if err == nil {
			p.read(stdout, c.Line)
		}
	}()
	return p, <-started
}

// read reads standard output to its end, and waits for that of the process.
func (p *Process) read(stdout io.Reader, each func(line string)) {
	defer close(p.ended)
	reader := bufio.NewReader(stdout)
	for first := true; ; first = false {
		text, err := reader.ReadString('\n')
		line := strings.TrimSuffix(text, "\n")
		if first {
			p.first = line
			close(p.said)
		}
		switch {
		case text == "": // the end
		case each != nil:
			each(line)
		default:
			p.lines = append(p.lines, line)
		}
		if err != nil {
			break
		}
	}
	_ = p.Command.Wait() // ProcessState has the code
}

// Launch starts a process that is killed when the test ends. If the test has failed, the end of its log is shown. The
// log is a file of the test's if the configuration names none.
func Launch(t testing.TB, c Config) *Process {
	t.Helper()
	if c.Log == "" {
		c.Log = filepath.Join(t.TempDir(), "log")
	}
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("standard error of coordd %s:\n%s", strings.Join(c.Args, " "), p.LogTail())
		}
	})
	return p
}

// FirstLine waits for the first line of standard output and returns it, "" if the process ends without one.
func (p *Process) FirstLine() string {
	giveUp := time.AfterFunc(startPatience, func() { _ = p.Command.Process.Kill() })
	defer giveUp.Stop()
	<-p.said
	return p.first
}

// Ready waits until the server prints its connection string, and returns the address in it.
func (p *Process) Ready() (address string, err error) {
	line := p.FirstLine()
	if u, err := url.Parse(line); err == nil && u.Scheme == "grpc" && u.Host != "" {
		return u.Host, nil
	}
	p.Kill()
	return "", fmt.Errorf("the server did not get ready: it said %q, and logged\n%s", line, p.LogTail())
}

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Lines waits for the end and returns the lines of standard output.
func (p *Process) Lines() []string {
	<-p.ended
	return p.lines
}

// ExitCode waits for the end; -1 stands for a signal.
func (p *Process) ExitCode() int {
	<-p.ended
	return p.Command.ProcessState.ExitCode()
}

// Kill ends the process as a crash does, also one that is paused, and waits for its end.
func (p *Process) Kill() {
	_ = p.Command.Process.Kill()
	<-p.ended
}

// Stop asks the process to end, waits for that, and wants exit code 0. The log of one that hangs shows its goroutines.
func (p *Process) Stop() error {
	if err := p.Command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	giveUp := time.AfterFunc(stopPatience, func() { _ = p.Command.Process.Signal(syscall.SIGQUIT) })
	defer giveUp.Stop()
	<-p.ended
	if !p.Command.ProcessState.Success() {
		return fmt.Errorf("after SIGTERM: %v\n%s", p.Command.ProcessState, p.LogTail())
	}
	return nil
}

// Quit ends the process so that its log shows what each goroutine was at.
func (p *Process) Quit() {
	_ = p.Resume()
	_ = p.Command.Process.Signal(syscall.SIGQUIT)
	giveUp := time.AfterFunc(stopPatience, func() { _ = p.Command.Process.Kill() })
	defer giveUp.Stop()
	<-p.ended
}

// Pause stops the process where it is, until Resume.
func (p *Process) Pause() error {
	p.stopped.Store(true)
	return p.Command.Process.Signal(pauseSignal)
}

// Resume lets a process that was paused go on.
func (p *Process) Resume() error {
	err := p.Command.Process.Signal(resumeSignal)
	p.stopped.Store(false)
	return err
}

// Paused reports whether the process is paused.
func (p *Process) Paused() bool { return p.stopped.Load() }

// PID returns the process id, which Config.Program keeps if it replaces itself by exec.
func (p *Process) PID() int { return p.Command.Process.Pid }

// Logged returns all that was written to the log so far, by earlier runs as well.
func (p *Process) Logged() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LogTail returns the last 60 lines of the log, without the goroutines that SIGQUIT has shown.
func (p *Process) LogTail() string {
	text, _, _ := strings.Cut(p.Logged(), "SIGQUIT: ")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

var (
	tlsLogged  = regexp.MustCompile(`connection=grpcs://([^/\s"]+)`)
	httpLogged = regexp.MustCompile(`msg="serving monitoring programs" address=(\S+)`)
)

// TLSAddress returns the address of the listener with TLS of a ready server, "" without such a listener.
func (p *Process) TLSAddress() string { return p.lastLogged(tlsLogged) }

// HTTPAddress returns the address for monitoring programs of a ready server, "" without such a listener.
func (p *Process) HTTPAddress() string { return p.lastLogged(httpLogged) }

// lastLogged returns what the last match in the log has in its parentheses.
func (p *Process) lastLogged(pattern *regexp.Regexp) string {
	found := pattern.FindAllStringSubmatch(p.Logged(), -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}
