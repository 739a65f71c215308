package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/exit"
)

const (
	// waitMax bounds every wait of these tests. It is only ever reached by a test that fails.
	waitMax = 30 * time.Second
	// root is the top of the repository, seen from this package.
	root = "../.."
)

// binary is the program as users get it, coordd the one beside it; both are built once for all tests.
var binary, coordd string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	binary, coordd = os.Getenv("COORDD_STANDIN_BIN"), os.Getenv("COORDD_BIN")
	directory, err := os.MkdirTemp("", "coordd-standin-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	for name, program := range map[string]*string{"coordd-standin": &binary, "coordd": &coordd} {
		if *program != "" {
			continue
		}
		*program = filepath.Join(directory, name)
		build := exec.Command("go", "build", "-buildvcs=false", "-o", *program, "../"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, output)
			return 1
		}
	}
	return m.Run()
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// output is a buffer that one goroutine may fill while another reads.
type output struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(part []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.Write(part)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.String()
}

// run is a program in the test process.
type run struct {
	out, log output
	in       chan os.Signal
	code     chan exit.Code
}

// begin starts a program whose environment is the given lines and nothing else.
func begin(environment []string, args ...string) *run {
	r := &run{in: make(chan os.Signal, 2), code: make(chan exit.Code, 1)}
	p := program{stdout: &r.out, stderr: &r.log, environment: environment,
		signals: func() <-chan os.Signal { return r.in }, stopTimeout: waitMax}
	go func() { r.code <- p.run(args) }()
	return r
}

// wait returns the exit code.
func (r *run) wait(t *testing.T) exit.Code {
	t.Helper()
	select {
	case code := <-r.code:
		return code
	case <-time.After(waitMax):
		t.Fatalf("the program did not end; stderr:\n%s", r.log.String())
		panic("unreachable")
	}
}

// process is the binary, running.
type process struct {
	command *exec.Cmd
	log     output
	lines   *bufio.Reader // of stdout
}

// spawn starts the binary with an environment of its own.
func spawn(t *testing.T, environment []string, args ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(binary, args...)}
	p.command.Env = append([]string{"HOME=" + t.TempDir()}, environment...)
	p.command.Stderr = &p.log
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(stdout)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.command.Process.Kill()
		p.command.Wait()
		if t.Failed() {
			t.Logf("stderr of coordd-standin %s:\n%s", strings.Join(args, " "), p.log.String())
		}
	})
	return p
}

// line returns the next line of stdout, "" at its end.
func (p *process) line(t *testing.T) string {
	t.Helper()
	late := time.AfterFunc(waitMax, func() { p.command.Process.Kill() })
	defer late.Stop()
	line, _ := p.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}
