//go:build linux

package crash

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testmode"
)

// launcher starts processes that the system kills when the test ends, however it ends. The system ties that
// to the thread that starts them, so all of them are started by one thread, which lives as long as the test
// binary.
var launcher = make(chan launch)

type launch struct {
	command *exec.Cmd
	done    chan error
}

func TestMain(m *testing.M) {
	go func() {
		runtime.LockOSThread()
		for l := range launcher {
			l.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			l.done <- l.command.Start()
		}
	}()
	testmode.Driver(m)
}

func startProcess(command *exec.Cmd) error {
	l := launch{command, make(chan error)}
	launcher <- l
	return <-l.done
}

// process is one server, from its start to its end.
type process struct {
	*exec.Cmd
	paused atomic.Bool
}

// startServer starts a server, calls started, and returns once it says that it is ready. What it writes to
// standard error goes to the file log; on failure the error has it.
func startServer(binary, log string, started func(*process), args ...string) (*process, error) {
	p := &process{Cmd: exec.Command(binary, append([]string{"serve"}, args...)...)}
	p.Env = append(os.Environ(), "COORDD_LOOPBACK_ADMIN=true") // not the flag, which would end older programs
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p.Stderr = file
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startProcess(p.Cmd); err != nil {
		return nil, err
	}
	started(p)
	giveUp := time.AfterFunc(startPatience, func() { _ = p.Process.Kill() })
	defer giveUp.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "grpc://") {
		p.kill()
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("the server did not get ready: %q, %v\n%s", line, err, text)
	}
	return p, nil
}

// startPatience bounds the wait for a server to get ready; only a failing test uses it up.
const startPatience = 3 * time.Minute

// stopPatience is just below the time after which a server gives up a clean stop by itself.
const stopPatience = 7 * time.Second

// kill ends the process as a crash does, also one that is paused.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// quit ends the process so that its log shows what each goroutine was at.
func (p *process) quit() {
	_ = p.resume()
	_ = p.Process.Signal(syscall.SIGQUIT)
	giveUp := time.AfterFunc(stopPatience, func() { _ = p.Process.Kill() })
	defer giveUp.Stop()
	_ = p.Wait()
}

// terminate asks the process to end and wants exit code 0.
func (p *process) terminate() error {
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	// One that does not end says where it hangs, in its log.
	giveUp := time.AfterFunc(stopPatience, func() { _ = p.Process.Signal(syscall.SIGQUIT) })
	defer giveUp.Stop()
	err := p.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("after SIGTERM: %w", err)
	}
	return nil // a pipe that broke while it was waited for is no news
}

func (p *process) pause() error {
	p.paused.Store(true)
	return p.Process.Signal(syscall.SIGSTOP)
}

func (p *process) resume() error {
	err := p.Process.Signal(syscall.SIGCONT)
	p.paused.Store(false)
	return err
}
