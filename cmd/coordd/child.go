package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

// forwardedSignals delivers, from now on, the signals that go to a command. A broken pipe is among them so
// that what this program has to say to nobody does not end it; it is not forwarded.
func forwardedSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, append(systemSignals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGPIPE)...)
	return signals
}

// ends reports whether a signal ends a program that does nothing about it, and is meant to.
func ends(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

func signalNumber(sig os.Signal) int {
	number, _ := sig.(syscall.Signal)
	return int(number)
}

// commandPath finds a command before anything is done for its sake.
func commandPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrPermission):
		return "", exit.With(exit.Cannot, fmt.Errorf("command %q cannot be run: %w", name, err))
	default:
		return "", exit.With(exit.NoSuch, fmt.Errorf("command %q: %w", name, err))
	}
}

// child is a command that runs, in a process group of its own.
type child struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error // of its end, once it has ended
}

// startChild runs a command. Its signals at the terminal come from there, if this program's do.
func startChild(env *cmdline.Env, path string, argv, environment []string) (*child, error) {
	command := exec.Command(path, argv[1:]...)
	command.Args[0] = argv[0]
	command.Env = append(append([]string{}, env.Environ...), environment...)
	command.Stdin, command.Stdout, command.Stderr = env.Stdin, cmdline.Exact(env.Stdout), cmdline.Exact(env.Stderr)
	command.WaitDelay = time.Second // where they are no files
	command.SysProcAttr = groupOfItsOwn()
	endWithParent(command.SysProcAttr)
	terminal := foreground(env, command.SysProcAttr)
	c := &child{command: command, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux counts the end of the thread that started it as the end of the parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.ended)
		err := command.Start()
		started <- err
		if err == nil {
			c.err = command.Wait()
			terminal()
		}
	}()
	if err := <-started; err != nil {
		return nil, exit.With(exit.Cannot, fmt.Errorf("command %q cannot be run: %w", argv[0], err))
	}
	return c, nil
}

// send gives a signal to all of the command's process group. One that has ended gets none.
func (c *child) send(sig syscall.Signal) { sendToGroup(c.command.Process, sig) }

// code is the exit code of a command that has ended.
func (c *child) code() exit.Code {
	state, ok := c.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && state.Signaled() {
		return exit.Signal + exit.Code(state.Signal())
	}
	return exit.Code(c.command.ProcessState.ExitCode())
}

// leftPause is how often the time that is left is looked at.
const leftPause = 50 * time.Millisecond

// run runs the command and sees that it ends before what is held is anybody else's.
func (h *holder) run(what *held, path string, asked <-chan os.Signal) error {
	margin := max(marginLeast, h.flags.sessionTimeout/marginPart)
	if what.session.Left() <= 2*margin {
		h.part(what)
		return exit.With(exit.Lost, fmt.Errorf("%s: held %q for too short a time to run anything", h.verb,
			h.name))
	}
	if h.keeps {
		return h.keep(what)
	}
	if len(h.argv) == 0 {
		return h.stay(what, margin, asked)
	}
	c, err := startChild(h.env, path, h.argv, []string{
		"COORDD_SESSION_ID=" + strconv.FormatUint(what.session.ID(), 10),
		"COORDD_FENCING_TOKEN=" + strconv.FormatUint(what.grant.Order, 10)})
	if err != nil {
		h.part(what)
		return err
	}
	lost := h.guard(what, c, margin, asked)
	if lost != nil {
		c.send(syscall.SIGKILL) // kill the processes that the command has left in its group
	}
	h.part(what)
	if lost != nil {
		return exit.With(exit.Lost, fmt.Errorf("%s: %q of %s is lost, and the command was ended: %w", h.verb,
			h.name, h.node, lost))
	}
	return &commandEnded{c.code()}
}

var errUnanswered = errors.New("no server has answered in time")

// tooLate is why what is held has too little time left. A session that was lost has none, and is to be told
// of even if nobody has looked at Lost yet.
func (h *held) tooLate() error { return cmp.Or(h.session.Err(), errUnanswered) }

// guard waits for the end of the command, or brings it about. The result is why.
func (h *holder) guard(what *held, c *child, margin time.Duration, asked <-chan os.Signal) (lost error) {
	look := time.NewTicker(leftPause)
	defer look.Stop()
	gone, over, killed := what.gone, what.session.Lost(), false
	for {
		select {
		case <-c.ended:
			return lost
		case sig := <-asked:
			if sig != syscall.SIGPIPE {
				c.send(syscall.Signal(signalNumber(sig)))
			}
		case err := <-gone:
			gone, lost = nil, err
			c.send(syscall.SIGKILL)
		case <-over:
			over, lost = nil, what.session.Err()
			c.send(syscall.SIGKILL)
		case <-look.C:
			switch left := what.session.Left(); {
			case left <= margin && !killed:
				killed, lost = true, what.tooLate()
				c.send(syscall.SIGKILL)
			case left <= 2*margin && lost == nil:
				lost = what.tooLate()
				c.send(syscall.SIGTERM)
			}
		}
	}
}

// stay holds on without a command, until it is told to stop or what is held is lost.
func (h *holder) stay(what *held, margin time.Duration, asked <-chan os.Signal) error {
	fmt.Fprintf(h.env.Stdout, "%s %q of %s: session %d, token %d\n", h.holds, h.name, h.node,
		what.session.ID(), what.grant.Order)
	look := time.NewTicker(leftPause)
	defer look.Stop()
	var lost error
	for lost == nil {
		select {
		case sig := <-asked:
			if ends(sig) {
				h.part(what)
				return nil
			}
		case lost = <-what.gone:
		case <-what.session.Lost():
			lost = what.session.Err()
		case <-look.C:
			if what.session.Left() <= margin {
				lost = what.tooLate()
			}
		}
	}
	h.part(what)
	return exit.With(exit.Lost, fmt.Errorf("%s: %q of %s is lost: %w", h.verb, h.name, h.node, lost))
}
