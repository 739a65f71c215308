package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manager stands for systemd: it starts the unit's command as the unit's user, and gets its notifications.
type manager struct {
	t       *testing.T
	root    string
	socket  *net.UnixConn
	address string
	server  *exec.Cmd
}

func newManager(t *testing.T, root string) *manager {
	t.Helper()
	m := &manager{t: t, root: root, address: fmt.Sprintf("@coordd-release-test-%d", os.Getpid())}
	var err error
	m.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: m.address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.socket.Close() })
	return m
}

// setting returns a setting of the installed unit.
func (m *manager) setting(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(m.root + "/usr/lib/systemd/system/coordd.service")
	if err != nil {
		m.t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindSubmatch(text)
	if found == nil {
		m.t.Fatalf("the unit has no %s", name)
	}
	return string(found[1])
}

// start starts the unit's command, and waits until it is ready.
func (m *manager) start() {
	m.t.Helper()
	sh(m.t, m.root, "install -d -m 0750 -o coordd -g coordd /run/coordd")
	uid, gid := number(m.t, m.root, "id -u coordd"), number(m.t, m.root, "id -g coordd")
	words := strings.Fields(m.setting("ExecStart"))
	m.server = exec.Command(words[0], words[1:]...)
	m.server.Path, m.server.Err, m.server.Dir = words[0], nil, "/" // the path is one in root
	m.server.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	m.server.Env = []string{"NOTIFY_SOCKET=" + m.address, "WATCHDOG_USEC=300000"}
	log, err := os.CreateTemp(m.t.TempDir(), "log")
	if err != nil {
		m.t.Fatal(err)
	}
	m.server.Stdout, m.server.Stderr = log, log
	if err := m.server.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = m.server.Process.Kill()
		if text, err := os.ReadFile(log.Name()); err == nil && m.t.Failed() {
			m.t.Logf("the server's log:\n%s", text)
		}
	})
	m.await("READY=1")
	m.await("WATCHDOG=1")
}

// stop stops the server as systemd does.
func (m *manager) stop() {
	m.t.Helper()
	if err := m.server.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	m.await("STOPPING=1")
	if err := m.server.Wait(); err != nil {
		m.t.Errorf("the server's end: %v", err)
	}
}

// await waits for a notification.
func (m *manager) await(want string) {
	m.t.Helper()
	var buffer [512]byte
	for {
		_ = m.socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := m.socket.Read(buffer[:])
		if err != nil {
			m.t.Fatalf("no %s: %v", want, err)
		}
		if slices.Contains(strings.Split(string(buffer[:n]), "\n"), want) {
			return
		}
	}
}

// sh runs a script on a machine and returns what it prints.
func sh(t *testing.T, root, script string) string {
	t.Helper()
	command := on(root)
	command.Args = append(command.Args, "-euc", script)
	printed, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, printed)
	}
	return strings.TrimSpace(string(printed))
}

func number(t *testing.T, root, script string) (n uint32) {
	t.Helper()
	if _, err := fmt.Sscan(sh(t, root, script), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestInsidePackage installs the package by README's command, upgrades it while a client keeps a session, removes and
// purges it. systemd does not run here: the test starts the unit's command itself.
func TestInsidePackage(t *testing.T) {
	folder := inside(t)
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("NOT TESTED: the package, since this is no Debian")
	}
	root := machine(t)
	install := lines(t, "# a Debian package", serveFiles(t, folder))
	sh(t, root, strings.Join(install, "\n"))
	for _, want := range []string{"755 root:root /usr/bin/coordd", "700 coordd:coordd /var/lib/coordd",
		"644 root:root /etc/coordd/coordd.yaml", "644 root:root /usr/lib/systemd/system/coordd.service"} {
		name := want[strings.LastIndex(want, " ")+1:]
		if got := sh(t, root, "stat -c '%a %U:%G %n' "+name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	m := newManager(t, root)
	m.start()
	take := lines(t, "coordd serve", "")[1:]
	if len(install)+len(take) > mostCommands {
		t.Errorf("%d commands until there is a lock", len(install)+len(take))
	}
	shell(t, on(root), take, wantLock)
	// An operator in the group needs no login and is not root; another user has no socket.
	sh(t, root, "useradd --create-home --groups coordd coordd-operator && useradd --create-home coordd-stranger")
	const status = `su %s -s /bin/sh -c "coordd cluster status"`
	if said := sh(t, root, fmt.Sprintf(status, "coordd-operator")); !strings.Contains(said, "leader") {
		t.Errorf("cluster status: %q", said)
	}
	if said := sh(t, root, "! "+fmt.Sprintf(status, "coordd-stranger")); said == "" {
		t.Error("a user outside of the group sees the status")
	}

	const held = "coordd semaphore show locks kept -o json"
	sh(t, root, "coordd lock locks kept --keep --session-timeout 5m")
	before := sh(t, root, held)
	m.stop()
	deb := filepath.Join(root, "tmp", "later.deb")
	content, err := os.ReadFile(filepath.Join(folder, "later", "coordd_"+later[1:]+"_amd64.deb"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(deb, content, 0o644); err != nil {
		t.Fatal(err)
	}
	sh(t, root, "echo '# mine' >>/etc/coordd/coordd.yaml && dpkg -i /tmp/later.deb")
	m.start()
	if said := sh(t, root, "coordd version"); !strings.HasPrefix(said, "coordd "+later) {
		t.Errorf("after the upgrade: %s", said)
	}
	if after := sh(t, root, held); owners(after) != owners(before) || owners(after) == "" {
		t.Errorf("the session has not lived through the upgrade: before\n%s\nafter\n%s", before, after)
	}
	m.stop()

	sh(t, root, "dpkg --remove coordd && test -e /etc/coordd/coordd.yaml && test ! -e /usr/bin/coordd && "+
		"test -n \"$(ls -A /var/lib/coordd)\"")
	sh(t, root, "dpkg --purge coordd && test ! -e /etc/coordd && test ! -e /var/lib/coordd")
}

// owners is the part of a semaphore's description that names its owners.
func owners(described string) string {
	return regexp.MustCompile(`(?s)"owners":.*?"order_id": ?\d+`).FindString(described)
}
