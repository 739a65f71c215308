package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// This file runs the blocks of docs/kubernetes.md. Their kubectl and helm are this binary, which asks the test.

// commandVariable has the socket of the test in a process that is kubectl or helm.
const commandVariable = "COORDD_TEST_COMMANDS"

type (
	request struct {
		Args  []string
		Stdin string
	}
	response struct {
		Out  string
		Code int
	}
)

// runCommand is a process that is kubectl or helm.
func runCommand(socket string) int {
	asked := request{Args: append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)}
	if slices.Contains(asked.Args, "-i") {
		text, _ := io.ReadAll(os.Stdin)
		asked.Stdin = string(text)
	}
	var answer response
	conn, err := net.Dial("unix", socket)
	if err == nil {
		err = json.NewEncoder(conn).Encode(asked)
	}
	if err == nil {
		err = json.NewDecoder(conn).Decode(&answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(answer.Out)
	return answer.Code
}

// blocks returns those of the page that this test runs, which is as many as it wants.
func blocks(t *testing.T, want int) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	must(t, err)
	var found []string
	for _, block := range regexp.MustCompile("(?s)<!-- run-if: root, TestPods -->\n```\n(.*?)```").
		FindAllStringSubmatch(string(page), -1) {
		found = append(found, block[1])
	}
	if len(found) != want {
		t.Fatalf("docs/kubernetes.md has %d blocks for this test, want %d", len(found), want)
	}
	return found
}

// script runs a block, and returns its output. The test's own goroutine runs the commands.
func (k *kubernetes) script(block string) string {
	k.t.Helper()
	bin := k.path("bin")
	for _, name := range []string{"kubectl", "helm"} {
		self, err := os.Executable()
		must(k.t, err)
		if err := os.Symlink(self, filepath.Join(bin, name)); !os.IsExist(err) {
			must(k.t, err)
		}
	}
	socket := filepath.Join(k.directory, "commands")
	listener, err := net.Listen("unix", socket)
	must(k.t, err)
	defer listener.Close()
	conns, done := make(chan net.Conn), make(chan error, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns <- conn
		}
	}()
	shell := exec.Command("sh", "-e", "-c", block)
	shell.Dir, shell.Env = "../..", append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), commandVariable+"="+socket)
	var out strings.Builder
	shell.Stdout, shell.Stderr = &out, &out
	go func() { done <- shell.Run() }()
	for {
		select {
		case conn := <-conns:
			var asked request
			must(k.t, json.NewDecoder(conn).Decode(&asked))
			answer := k.command(asked)
			k.t.Logf("$ %s\n%s", strings.Join(asked.Args, " "), answer.Out)
			must(k.t, json.NewEncoder(conn).Encode(answer))
			must(k.t, conn.Close())
		case err := <-done:
			if err != nil {
				k.t.Fatalf("%s\n%v\n%s", block, err, out.String())
			}
			return out.String()
		}
	}
}

// command does what a command of kubectl or helm does.
func (k *kubernetes) command(asked request) (answer response) {
	k.t.Helper()
	line := strings.Join(asked.Args, " ")
	const upgrade = "helm upgrade coordd deploy/chart --namespace coordd --reuse-values --set "
	if set, is := strings.CutPrefix(line, upgrade); is {
		k.upgrade(set)
		return response{}
	}
	words := strings.Fields(strings.TrimPrefix(line, "kubectl -n coordd "))
	switch verb := words[0]; {
	case line == "helm install coordd deploy/chart --namespace coordd --create-namespace":
		k.install()
		return response{}
	case line == "kubectl -n coordd rollout status statefulset/coordd":
		k.untilReady(0, 1, 2)
		return response{}
	case line == "kubectl -n coordd rollout restart statefulset/coordd":
		k.roll()
		return response{}
	case verb == "exec":
		words = slices.DeleteFunc(words, func(word string) bool { return word == "-i" })
		out, code := k.exec(k.pods[words[1]], asked.Stdin, words[3:]...)
		return response{out, code}
	case verb == "delete" && words[1] == "pvc": // which goes away with its pod
		must(k.t, os.Rename(k.path("volumes", words[2]), filepath.Join(k.path("lost"), words[2])))
		return response{}
	case verb == "delete" && words[1] == "pod":
		p := k.pods[words[2]]
		must(k.t, p.process.Process.Signal(syscall.SIGTERM))
		<-p.ended
		k.startServer(int(words[2][len(words[2])-1] - '0'))
		return response{}
	}
	k.t.Errorf("the page has the command %q, which is unknown here", line)
	return response{"unknown", 1}
}

// install starts the servers. Kubernetes starts them in parallel, that is in any order; here each waits until the one
// before it answers its startup probe.
func (k *kubernetes) install() {
	k.render()
	k.issue()
	for _, number := range []int{2, 0, 1} {
		p := k.startServer(number)
		url := k.url(p, k.objects.set.Spec.Template.Spec.Containers[0].StartupProbe)
		k.until(p.name+" has started", func() bool { return healthy(url) })
	}
}

// upgrade renders the chart with one more value, brings the volumes up to date, and restarts the servers where their
// pods change.
func (k *kubernetes) upgrade(setting string) {
	before := k.objects.set.Spec.Template
	k.settings = append(k.settings, setting)
	k.render()
	k.updateVolumes()
	if !reflect.DeepEqual(before, k.objects.set.Spec.Template) {
		k.roll()
	}
}

// render renders the objects, whose services the DNS knows from then on.
func (k *kubernetes) render() {
	rendered := decode(k.t, k.settings...)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.objects = rendered
}
