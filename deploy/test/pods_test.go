package deploy_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// insideVariable is set in the process of the test that has namespaces of its own.
const insideVariable = "COORDD_TEST_INSIDE"

// program is the program of the image.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("COORDD_BIN")
	if path == "" {
		path = "../../bin/coordd"
	}
	path, err := filepath.Abs(path)
	must(t, err)
	return path
}

// TestPods starts three servers in namespaces of their own, with the commands, variables and volumes that the chart
// renders, and runs the blocks of docs/kubernetes.md while a client holds a lock. Each started pod has a new address.
func TestPods(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		testInside(t)
		return
	}
	must(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must(t, syscall.Mount("proc", "/proc", "proc", 0, ""))
	k := &kubernetes{t: t, directory: t.TempDir(), objects: new(objects), secrets: make(map[string]secret),
		authorities: make(map[string]*authority), pods: make(map[string]*pod)}
	k.ip("link", "set", "lo", "up")
	k.ip("link", "add", "bridge", "type", "bridge")
	k.ip("addr", "add", gateway+"/16", "dev", "bridge")
	k.ip("link", "set", "bridge", "up")
	serveNames(t, gateway, k.lookup)
	t.Cleanup(func() {
		for name, p := range k.pods {
			_ = p.process.Process.Kill()
			<-p.ended
			if log := k.log(name); t.Failed() {
				t.Logf("log of %s:\n%s", name, log[max(0, len(log)-8000):])
			}
		}
	})
	page := blocks(t, 4)
	install, user, upgrade, replace := page[0], page[1], page[2], page[3]

	k.script(install)
	k.script(user)
	held := k.hold()
	k.script(upgrade)
	k.wantHeld(held)
	k.renew()
	k.script("kubectl -n coordd rollout restart statefulset/coordd")
	k.wantHeld(held)
	k.loseVolume(replace)
	k.wantHeld(held)
	k.script("kubectl -n coordd rollout restart statefulset/coordd") // with its first list of servers again
	k.wantHeld(held)
	k.loseAll()
	k.wantHeld(held)
	for number := range servers {
		if bad := regexp.MustCompile(`(?m)^.*(open to others|is not known and has no effect).*$`).
			FindString(k.log(k.server(number).name)); bad != "" {
			t.Errorf("server %d warns: %s", number, bad)
		}
	}
}

// testInside runs the test in namespaces of its own, which end with it.
func testInside(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: pods in network namespaces need root: run `sudo env \"PATH=$PATH\" make deploy-test`")
	}
	for _, tool := range []string{"ip", "nsenter", "chroot"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED: pods in network namespaces need the program %s: install iproute2 and util-linux", tool)
		}
	}
	runtime.LockOSThread() // with whose end the process inside ends
	inside := exec.Command("/proc/self/exe", "-test.run=^TestPods$", "-test.v", "-test.timeout=20m")
	inside.Env = append(os.Environ(), insideVariable+"=yes")
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if err := inside.Run(); err != nil {
		t.Errorf("in namespaces of its own: %v", err)
	}
}

// hold starts a pod with a program that holds a lock, and returns the session and the token.
func (k *kubernetes) hold() string {
	ca, password := filepath.Join(k.directory, "ca.crt"), filepath.Join(k.directory, "password")
	must(k.t, os.WriteFile(ca, k.secrets["coordd-client"]["ca.crt"], 0o600))
	must(k.t, os.WriteFile(password, []byte("correct horse\n"), 0o600))
	k.start("worker", sandbox{Once: true, Env: os.Environ(), Command: []string{program(k.t), "lock", "app", "leader",
		"--create-node", "--session-timeout=60s", "--endpoint=grpcs://coordd.coordd.svc:2135/local", "--ca-file", ca,
		"--user=root", "--password-file", password, "--",
		"sh", "-c", `echo "held $COORDD_SESSION_ID $COORDD_FENCING_TOKEN."; exec sleep infinity`}})
	line := regexp.MustCompile(`(?m)^held \d+ \d+\.$`)
	k.until("the worker has the lock", func() bool { return line.MatchString(k.log("worker")) })
	return line.FindString(k.log("worker"))
}

// wantHeld wants the worker to have the lock still, with the same session and token.
func (k *kubernetes) wantHeld(held string) {
	k.t.Helper()
	select {
	case <-k.pods["worker"].ended:
		k.t.Fatalf("the worker has ended:\n%s", k.log("worker"))
	default:
	}
	session := strings.Fields(held)[1]
	for number := range servers {
		out, code := k.exec(k.server(number), "", "/coordd", "semaphore", "show", "app", "leader")
		if code != 0 || !strings.Contains(out, session) {
			k.t.Errorf("server %d: session %s does not hold the lock (exit code %d):\n%s", number, session, code, out)
		}
	}
}

// renew renews all certificates, and wants the servers to show the new ones without a restart.
func (k *kubernetes) renew() {
	k.issue()
	newest := k.secrets["coordd-client"]["tls.crt"]
	k.updateVolumes()
	for number := range servers {
		address := k.server(number).address.String() + ":" + k.port("client")
		k.until("the new certificate is shown", func() bool {
			conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			if err != nil {
				return false
			}
			defer conn.Close()
			return slices.Equal(pemOf(conn.ConnectionState().PeerCertificates[0].Raw), newest)
		})
	}
}

// loseVolume empties the volume of server 1, wants it to stay away, and replaces it as the page says.
func (k *kubernetes) loseVolume(block string) {
	k.end(k.server(1), syscall.SIGKILL)
	must(k.t, os.Rename(k.path("volumes", "data-coordd-1"), filepath.Join(k.path("lost"), "first")))
	before := len(k.log("coordd-1"))
	k.startServer(1)
	k.until("the empty server has been refused", func() bool {
		return strings.Contains(k.log("coordd-1")[before:], "coordd cluster remove")
	})
	k.until("the others go on", func() bool { return k.server(0).ready.Load() && k.server(2).ready.Load() })
	others := []string{k.server(0).sandbox.Address, k.server(2).sandbox.Address}
	k.script(block)
	k.untilReady(0, 1, 2)
	if now := []string{k.server(0).sandbox.Address, k.server(2).sandbox.Address}; !slices.Equal(now, others) {
		k.t.Errorf("the other servers have been restarted")
	}
	out, _ := k.exec(k.server(0), "", "/coordd", "cluster", "status", "-o", "json")
	var status struct {
		Members []struct{ Name, Role string }
	}
	must(k.t, json.Unmarshal([]byte(out), &status))
	for _, m := range status.Members {
		if len(status.Members) != servers || m.Role != "leader" && m.Role != "voter" {
			k.t.Errorf("the members are %v", status.Members)
		}
	}
}

// loseAll kills all servers at once, and starts them in another order with new addresses.
func (k *kubernetes) loseAll() {
	for number := range servers {
		k.end(k.server(number), syscall.SIGKILL)
	}
	for _, number := range []int{1, 2, 0} {
		k.startServer(number)
	}
	k.untilReady(0, 1, 2)
	out, code := k.exec(k.server(0), "", "/coordd", "health", "--wait", "30s")
	if code != 0 {
		k.t.Errorf("exit code %d: %s", code, out)
	}
	k.t.Log(fmt.Sprintln("after all have been lost:", out))
}
