package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/sim/result"
)

// program runs single seeds, within bounds.
type program struct {
	built
	base         string // each run has a folder of its own below it
	cpu, idle    time.Duration
	memory, disk int64
	env          []string // besides what each run has
	runs         atomic.Int64
}

// job is a run to do. Names are "" if the file is not wanted.
type job struct {
	seed              uint64
	plan, trace, logs string
	operations        string
	profile           string
	env               []string
}

// outcome describes a run that has ended.
type outcome struct {
	result.Result
	failure string // its first line names its kind
	output  []byte
	real    time.Duration
}

// errInterrupted means that a signal ended the runner.
var errInterrupted = errors.New("interrupted")

// longestOutput bounds how much of an output is kept.
const longestOutput = 8 << 20

// run runs one seed. An error is the runner's own.
func (p *program) run(ctx context.Context, j job) (outcome, error) {
	dir := filepath.Join(p.base, fmt.Sprintf("%012d", p.runs.Add(1))) // of one length, as chance might have it
	if err := os.Mkdir(dir, 0o700); err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "d")
	if err := os.Mkdir(data, 0o700); err != nil {
		return outcome{}, err
	}
	args := []string{"-test.run", "^TestSeed$", "-seed", strconv.FormatUint(j.seed, 10), "-dir", "d"}
	for name, file := range map[string]string{"-plan": j.plan, "-trace": j.trace, "-logs": j.logs,
		"-operations": j.operations, "-test.cpuprofile": j.profile} {
		if file != "" {
			args = append(args, name, file)
		}
	}
	c := exec.Command(p.file, args...)
	c.Dir = dir
	c.Env = []string{"GOTRACEBACK=all", "TMPDIR=" + data}
	switch {
	case p.server != "":
		c.Args = append(c.Args, "-processes", p.server, fmt.Sprint("-hooked=", p.hooked), "-sdk", p.sdk)
	case p.patched:
		c.Env = append(c.Env, "GODEBUG=asyncpreemptoff=1", "GOGC=off", "GOMAXPROCS=1")
	}
	c.Env = append(append(c.Env, p.env...), j.env...)
	output := &bounded{most: longestOutput}
	c.Stdout, c.Stderr = output, output
	dieWithParent(c)
	begun := time.Now()
	if err := c.Start(); err != nil {
		return outcome{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	excess, err := p.watch(ctx, watched{c.Process, data, ended})
	if ctx.Err() != nil {
		return outcome{}, errInterrupted
	}
	o := outcome{output: output.Bytes(), real: time.Since(begun)}
	o.judge(j.seed, err, excess)
	return o, nil
}

// judge derives the failure, if there is one, from the end of a process.
func (o *outcome) judge(seed uint64, err error, excess string) {
	r, whole := result.Parse(o.output)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	o.Result = r
	o.Seed = seed
	switch {
	case excess != "":
		o.failure = excess + spot(o.output)
	case !whole:
		o.failure = fmt.Sprintf("ended with code %d without a result: %s%s", code, headline(o.output), spot(o.output))
	case code != r.Verdict.ExitCode():
		o.failure = fmt.Sprintf("ended with code %d, but said: %s", code, r.Verdict)
	case r.Verdict != result.OK:
		o.failure = string(r.Verdict) + ": " + strings.Join(r.Violations, "\n")
	case r.Seed != seed:
		o.failure = fmt.Sprintf("answered for seed %d", r.Seed)
	}
}

// watched is a process that has been started.
type watched struct {
	process *os.Process
	data    string // its folder
	ended   chan error
}

// watch waits for the end of a process, and makes an end of one that exceeds a bound, which it names. Beside busy
// processes a run takes as long as they let it: only time in which it would not run on a machine of its own is idle.
func (p *program) watch(ctx context.Context, w watched) (excess string, err error) {
	const pause = 100 * time.Millisecond
	var idle time.Duration
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case err := <-w.ended:
			return "", err
		case <-ctx.Done():
			_ = w.process.Kill()
			return "", <-w.ended
		case <-tick.C:
		}
		if !runnable(w.process.Pid) {
			idle += pause
		}
		used, memory := usage(w.process.Pid)
		switch {
		case used > p.cpu:
			excess = fmt.Sprintf("hangs: has not ended after %v of processor time", p.cpu)
		case idle > p.idle:
			excess = fmt.Sprintf("hangs: has had nothing to do for %v", p.idle)
		case memory > p.memory:
			excess = fmt.Sprintf("takes more than %d bytes of memory", p.memory)
		case sizeOf(w.data) > p.disk:
			excess = fmt.Sprintf("takes more than %d bytes of disk", p.disk)
		default:
			continue
		}
		quit(w.process.Pid)
		select {
		case err = <-w.ended:
		case <-time.After(10 * time.Second):
			_ = w.process.Kill()
			err = <-w.ended
		}
		return excess, err
	}
}

// usage returns the processor time and the resident memory of a process, as far as they can be read.
func usage(pid int) (cpu time.Duration, memory int64) {
	const ticksPerSecond = 100 // whatever the kernel's own
	cpu = time.Duration(ticksOf(fmt.Sprintf("/proc/%d/stat", pid))) * time.Second / ticksPerSecond
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		memory = pages * int64(os.Getpagesize())
	}
	return cpu, memory
}

// runnable reports whether a thread of a process runs, or waits for a processor or for a file.
func runnable(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(tasks, func(task string) bool {
		text, _ := os.ReadFile(task)
		state := bytes.TrimLeft(text[bytes.LastIndexByte(text, ')')+1:], " ")
		return len(state) > 0 && (state[0] == 'R' || state[0] == 'D')
	})
}

// ticksOf returns the processor time in a stat file of /proc.
func ticksOf(file string) int64 {
	text, _ := os.ReadFile(file)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name before may have spaces
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return user + system
}

// sizeOf returns the size of the files below a folder. Files that come and go are left out.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

var (
	fatal   = regexp.MustCompile(`(?m)^(panic|fatal error|unexpected fault address|SIGSEGV)\b.*`)
	running = regexp.MustCompile(`(?m)^goroutine \d+ .*\[running.*\]:\n((?:.+\n)*)`)
	frame   = regexp.MustCompile(`(?m)^(\S+\.\S+)\(`)
)

// headline returns the line of an output that says why a program ended.
func headline(output []byte) string {
	if line := fatal.Find(output); line != nil {
		return strings.TrimSuffix(string(line), " [recovered, repanicked]")
	}
	return "nothing was printed about it"
}

// spot returns the innermost functions of the running goroutine in an output with stacks, those that are not Go's.
func spot(output []byte) string {
	block := running.FindSubmatch(output)
	if block == nil {
		return ""
	}
	var names []string
	for _, match := range frame.FindAllSubmatch(block[1], -1) {
		if name := string(match[1]); strings.Contains(name, "/") && len(names) < 4 {
			names = append(names, name[strings.LastIndexByte(name, '/')+1:])
		}
	}
	if names == nil {
		return ""
	}
	return "\nin " + strings.Join(names, ", ")
}

// bounded keeps the beginning and the end of its input.
type bounded struct {
	most       int
	head, tail []byte
}

func (b *bounded) Write(text []byte) (int, error) {
	n := len(text)
	if room := b.most/2 - len(b.head); room > 0 {
		take := min(room, len(text))
		b.head = append(b.head, text[:take]...)
		text = text[take:]
	}
	b.tail = append(b.tail, text...)
	if len(b.tail) > b.most {
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-b.most/2:]...)
	}
	return n, nil
}

func (b *bounded) Bytes() []byte { return append(b.head[:len(b.head):len(b.head)], b.tail...) }
