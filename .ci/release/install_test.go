package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// insideVariable holds the folder that TestInstalled has prepared for the tests that it starts in namespaces, so that
// they have ports, mounts and processes of their own.
const insideVariable = "COORDD_RELEASE_TEST"

const modulePath = "github.com/coordd/coordd"

// TestInstalled runs the TestInside tests in namespaces.
func TestInstalled(t *testing.T) {
	lacking := ""
	for _, program := range []string{"unshare", "ip", "curl", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			lacking = program
		}
	}
	if lacking != "" || os.Geteuid() != 0 {
		t.Skipf("NOT TESTED: what README prints, since that needs root and %q", lacking)
	}
	made := dist(t)
	folder := t.TempDir()
	upgrade, err := maker{folder: "later", umask: "022", zone: "UTC", user: "root", tag: later,
		platforms: "linux/amd64"}.make()
	if err != nil {
		t.Fatal(err)
	}
	makeProxy(t, filepath.Join(filepath.Dir(made)), filepath.Join(folder, "proxy"))
	for name, target := range map[string]string{"dist": made, "later": upgrade} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.timeout=10m", "-test.run=^TestInside"}
	plain := exec.Command("unshare", append([]string{"--net", "--mount", "--pid", "--fork", "--kill-child",
		"--mount-proc", self}, args...)...)
	inEngine := exec.Command("../../docker/with-engine", append(append([]string{self}, args...),
		"-test.run=^TestEngine")...)
	for name, command := range map[string]*exec.Cmd{"in namespaces": plain, "with a Docker engine": inEngine} {
		t.Run(name, func(t *testing.T) {
			command.Env = append(os.Environ(), insideVariable+"="+folder)
			printed, err := command.CombinedOutput()
			t.Logf("%s", printed)
			if command == inEngine && command.ProcessState.ExitCode() == 3 {
				t.Skip("NOT TESTED: the images in a Docker engine")
			}
			if err != nil || !bytes.Contains(printed, []byte("--- PASS")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// makeProxy makes a folder that a GOPROXY can name, with the module as the tag has it.
func makeProxy(t *testing.T, clone, folder string) {
	t.Helper()
	versions := filepath.Join(folder, modulePath, "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	packed, err := os.Create(filepath.Join(versions, tag+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	if err := zip.CreateFromVCS(packed, module.Version{Path: modulePath, Version: tag}, clone, tag, ""); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(clone, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"list": tag + "\n", tag + ".mod": string(mod),
		tag + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, tag)} {
		if err := os.WriteFile(filepath.Join(versions, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// inside returns the folder that TestInstalled has prepared.
func inside(t *testing.T) string {
	t.Helper()
	folder := os.Getenv(insideVariable)
	if folder == "" {
		t.Skip("TestInstalled runs it")
	}
	if printed, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	return folder
}

// lines returns the commands of README's block that begins with a comment, with hosts replaced.
func lines(t *testing.T, comment, host string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(block[1], comment) {
			continue
		}
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				commands = append(commands, strings.NewReplacer("https://github.com/", host, "ghcr.io/",
					strings.TrimPrefix(host, "http://")).Replace(line))
			}
		}
	}
	if len(commands) == 0 {
		t.Fatalf("README.md has no block that begins with %q", comment)
	}
	return commands
}

// patience bounds a wait that only a failing test comes to the end of.
const patience = 5 * time.Minute

// mostCommands bounds the commands between the top of README and a lock.
const mostCommands = 3

// shell types commands into a shell, the next one after a server once that is ready, waits until want is printed, and
// ends the shell with all that it has started.
func shell(t *testing.T, command *exec.Cmd, commands []string, want string) {
	t.Helper()
	if len(commands) > mostCommands {
		t.Errorf("%d commands, at most %d are wanted: %q", len(commands), mostCommands, commands)
	}
	begun := time.Now()
	command.Args, command.SysProcAttr.Setpgid = append(command.Args, "-eu"), true
	typed, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	printed := new(testlog)
	command.Stdout, command.Stderr, command.WaitDelay = printed, printed, time.Millisecond
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }()
	await := func(text string) {
		t.Helper()
		late := time.After(patience)
		for !strings.Contains(printed.text(), text) {
			select {
			case err := <-ended:
				if !strings.Contains(printed.text(), text) {
					t.Fatalf("%q\nended (%v) before this was printed: %q\n%s", commands, err, text, printed.text())
				}
				return
			case <-late:
				t.Fatalf("%q\nhave not printed %q:\n%s", commands, text, printed.text())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	for _, line := range commands {
		if _, err := fmt.Fprintln(typed, line); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "coordd serve") {
			await("grpc://127.0.0.1:2136/local\n")
		}
	}
	typed.Close()
	await(want)
	t.Logf("%d commands, %.1f s until %q", len(commands), time.Since(begun).Seconds(), want)
}

// testlog keeps the output of a shell.
type testlog struct {
	mutex sync.Mutex
	all   []byte
}

// Write implements io.Writer.
func (l *testlog) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all = append(l.all, text...)
	return len(text), nil
}

func (l *testlog) text() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return string(l.all)
}

// serveFiles serves the release at the paths of its host.
func serveFiles(t *testing.T, folder string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "/coordd/coordd/releases/download/" + tag + "/"
	mux := http.NewServeMux()
	mux.Handle(at, http.StripPrefix(at, http.FileServer(http.Dir(filepath.Join(folder, "dist")))))
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return "http://" + listener.Addr().String() + "/"
}

// machine is a copy of this machine's files in which anything may change.
func machine(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	root := filepath.Join(base, "copy")
	script := `mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" "$1/copy" &&
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/copy" &&
		mount -t proc proc "$1/copy/proc" && mount -t tmpfs tmpfs "$1/copy/run" && mount -t tmpfs tmpfs "$1/copy/tmp" &&
		mount --bind /dev "$1/copy/dev" && rm -rf "$1/copy/var/lib/coordd" &&
		rm -f "$1/copy/var/lib/man-db/auto-update" && # it takes a minute, and has no part in this
		if [ ! -e "$1/copy/usr/bin/sudo" ]; then
			printf '#!/bin/sh\nexec "$@"\n' >"$1/copy/usr/bin/sudo" && chmod +x "$1/copy/usr/bin/sudo"
		fi`
	if printed, err := exec.Command("sh", "-euc", script, "sh", base).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--recursive", "--lazy", base).Run() })
	return root
}

// on returns a shell on a machine, in /tmp.
func on(root string) *exec.Cmd {
	command := exec.Command("bash")
	command.Dir, command.SysProcAttr = "/tmp", &syscall.SysProcAttr{Chroot: root}
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp/home",
		"DEBIAN_FRONTEND=noninteractive", "LANG=C"}
	return command
}

// wantLock is the output of README's command once it has the lock.
const wantLock = "I have the lock"

func TestInsideBinary(t *testing.T) {
	folder := inside(t)
	host := serveFiles(t, folder)
	shell(t, on(machine(t)), append(lines(t, "# a static binary", host), lines(t, "coordd serve", host)...), wantLock)
}

// goSurroundings has a module cache that lacks our module: all others are there from earlier downloads, and compiled.
func goSurroundings(t *testing.T, folder string) *exec.Cmd {
	t.Helper()
	base := t.TempDir()
	cache, err := output("go", "env", "GOCACHE")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := output("go", "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	script := `mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" "$1/home" &&
		mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$2" &&
		rm -rf "$2/cache/download/github.com/coordd" && mount -t tmpfs tmpfs /var/lib` // where root's data would be
	if printed, err := exec.Command("sh", "-euc", script, "sh", base, modules).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", "/var/lib", modules, base).Run() })
	home := base + "/home"
	command := exec.Command("bash")
	command.Dir, command.SysProcAttr = home, &syscall.SysProcAttr{}
	command.Env = []string{"HOME=" + home, "PATH=" + home + "/go/bin:" + os.Getenv("PATH"), "GOCACHE=" + cache,
		"GOMODCACHE=" + modules, "GOPROXY=file://" + folder + "/proxy,off", "GOSUMDB=off", "GOTOOLCHAIN=local",
		"GODEBUG=goindex=0"} // the index of an earlier test's version would be taken for this one's
	return command
}

func TestInsideGoInstall(t *testing.T) {
	folder := inside(t)
	for _, wanted := range []string{tag, "latest"} {
		command := goSurroundings(t, folder)
		commands := append(lines(t, "# with Go", ""), lines(t, "coordd serve", "")...)
		if wanted == "latest" {
			commands[0] = strings.ReplaceAll(commands[0], tag, wanted)
		}
		shell(t, command, commands, wantLock)
		home := command.Dir
		said, err := output(home+"/go/bin/coordd", "version")
		if err != nil || !strings.HasPrefix(said, "coordd "+tag+" ") {
			t.Errorf("%s: coordd version: %q, %v", wanted, said, err)
		}
	}
}

// TestInsideGoTest is a user's first test with the stand-in, in a module that has the SDK.
func TestInsideGoTest(t *testing.T) {
	folder := inside(t)
	command := goSurroundings(t, folder)
	for name, source := range map[string]string{"go.mod": "testdata/alone/go.mod", "go.sum": "testdata/alone/go.sum",
		"lock_test.go": "lock_test.go"} {
		content, err := os.ReadFile("../../compat/go/standin/" + source)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(command.Dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	get := regexp.MustCompile("`(go get [^`]+)`").FindSubmatch(readme)
	if get == nil {
		t.Fatal("README.md has no go get")
	}
	shell(t, command, []string{string(get[1]), "go test ./..."}, "ok  \talone")
}

// clientProgram uses the client without a server.
const clientProgram = `package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coordd/coordd/client"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := client.New(client.Config{Endpoint: "grpc://127.0.0.1:9/local"})
	if err == nil {
		_, err = c.Open(ctx, "/local/app", client.SessionConfig{})
	}
	fmt.Println("refused:", err)
}
`

// TestInsideGoClient gets the client into an empty module, which then has gRPC and YDB's messages and nothing of the
// server.
func TestInsideGoClient(t *testing.T) {
	folder := inside(t)
	command := goSurroundings(t, folder)
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	get := regexp.MustCompile("`(go get [^`]+)`").FindSubmatch(page)
	if get == nil {
		t.Fatal("docs/recipes.md has no go get")
	}
	for name, content := range map[string]string{"go.mod": "module alone\n", "main.go": clientProgram} {
		if err := os.WriteFile(filepath.Join(command.Dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, command, []string{string(get[1]), "go run ."}, "refused: rpc error")
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(command.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, foreign := range []string{"go.etcd.io", "prometheus/client_golang", "spf13", "golang-jwt", "goleak"} {
			if strings.Contains(string(content), foreign) {
				t.Errorf("%s has %s in it:\n%s", name, foreign, content)
			}
		}
	}
}
