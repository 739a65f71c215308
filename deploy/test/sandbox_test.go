package deploy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// This file is the kubelet's part: a pod in namespaces of its own, and in it the container, which is started again when
// it ends. The test's binary is the first process of each pod, and the container's process is its child.

// sandboxVariable has the sandbox of a process that is the first one of a pod.
const sandboxVariable = "COORDD_TEST_SANDBOX"

// sandbox describes a pod to its first process.
type sandbox struct {
	Name, Address, DNS string
	Device             string // which becomes eth0
	Root               string // an empty directory for the container's files; "": it has those of the host
	Program            string // of the image, as /coordd
	Mounts             []mount
	UID, GID, FSGroup  int
	Command, Env       []string
	Once               bool // it is not started again
}

// mount is a directory of the host in the container.
type mount struct {
	From, To string
	ReadOnly bool
}

// TestMain makes this binary the first process of a pod, or kubectl or helm for a script, if it is started as one.
func TestMain(m *testing.M) {
	if text := os.Getenv(sandboxVariable); text != "" {
		var s sandbox
		err := json.Unmarshal([]byte(text), &s)
		if err == nil {
			err = s.run()
		}
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
	if socket := os.Getenv(commandVariable); socket != "" {
		os.Exit(runCommand(socket))
	}
	os.Exit(m.Run())
}

// run is the pod's first process, until the pod is deleted.
func (s *sandbox) run() error {
	runtime.LockOSThread() // no_new_privs is a thread's
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil && err != io.EOF { // the device is here
		return err
	}
	for _, command := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "set", s.Device, "name", "eth0"},
		{"ip", "addr", "add", s.Address + "/16", "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", command, err, out)
		}
	}
	if err := s.files(); err != nil {
		return err
	}
	const setNoNewPrivileges = 38
	if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setNoNewPrivileges, 1, 0); err != 0 {
		return err
	}
	for {
		container := exec.Command(s.Command[0], s.Command[1:]...)
		container.Env, container.Stdout, container.Stderr = s.Env, os.Stdout, os.Stderr
		container.SysProcAttr = &syscall.SysProcAttr{Chroot: s.Root, Credential: &syscall.Credential{
			Uid: uint32(s.UID), Gid: uint32(s.GID), Groups: []uint32{uint32(s.FSGroup)}}}
		if s.Root != "" {
			container.Dir = "/"
		}
		if err := container.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() { _ = container.Wait(); close(ended) }()
		select {
		case <-terminate:
			_ = container.Process.Signal(syscall.SIGTERM)
			<-ended
			fmt.Fprintln(os.Stderr, "sandbox: deleted, exit code", container.ProcessState.ExitCode())
			os.Exit(container.ProcessState.ExitCode())
		case <-ended:
		}
		fmt.Fprintln(os.Stderr, "sandbox: the container has ended, exit code", container.ProcessState.ExitCode())
		if s.Once {
			os.Exit(container.ProcessState.ExitCode())
		}
		time.Sleep(time.Second) // where Kubernetes waits ever longer
	}
}

// files makes the container's files: those of the image, the volumes, and what the kubelet adds. The root is read-only.
func (s *sandbox) files() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	resolver := fmt.Sprintf("nameserver %s\nsearch %s.svc.cluster.local svc.cluster.local cluster.local\n"+
		"options ndots:5\n", s.DNS, namespace)
	written := map[string]string{"etc/resolv.conf": resolver,
		"etc/hosts": "127.0.0.1 localhost\n" + s.Address + " " + s.Name + "\n"}
	if s.Root == "" {
		for name, text := range written {
			from := filepath.Join(os.TempDir(), s.Name+"-"+filepath.Base(name))
			if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
				return err
			}
			if err := bind(mount{from, "/" + name, true}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := syscall.Mount("none", s.Root, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	for name, text := range written {
		if err := os.MkdirAll(filepath.Join(s.Root, "etc"), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.Root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, m := range append(s.Mounts, mount{s.Program, "/coordd", true}, mount{"/dev/null", "/dev/null", false},
		mount{"/proc", "/proc", false}) {
		m.To = filepath.Join(s.Root, m.To)
		if err := bind(m); err != nil {
			return err
		}
	}
	return syscall.Mount("none", s.Root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "mode=0755")
}

// bind mounts a file or directory at a place, which is made if it is missing.
func bind(m mount) error {
	info, err := os.Stat(m.From)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(m.To, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(m.To), 0o755); err == nil {
		var file *os.File
		if file, err = os.OpenFile(m.To, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			err = file.Close()
		}
	}
	if err == nil {
		err = syscall.Mount(m.From, m.To, "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	if err == nil && m.ReadOnly {
		err = syscall.Mount("", m.To, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.From, m.To, err)
	}
	return nil
}
