package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

const (
	// waitMax bounds every wait. It is only ever reached by a test that fails.
	waitMax = 2 * time.Minute
	gateway = "10.46.0.1" // of the test's own network, with its DNS
	servers = 3
)

// kubernetes does for what the chart renders what Kubernetes would, on one machine.
type kubernetes struct {
	t         *testing.T
	directory string // of volumes and logs
	settings  []string
	objects   *objects

	secrets     map[string]secret
	authorities map[string]*authority
	serial      int64 // of certificates, and of names that are used once

	mu   sync.Mutex // guards writes of pods and objects, and the DNS' reads
	pods map[string]*pod
}

// pod is a running one.
type pod struct {
	name    string
	address netip.Addr
	device  string
	sandbox sandbox
	process *exec.Cmd
	ready   atomic.Bool
	ended   chan struct{}
}

// start starts a pod with a new address.
func (k *kubernetes) start(name string, s sandbox) *pod {
	k.serial++
	p := &pod{name: name, device: fmt.Sprintf("pod%d", k.serial), ended: make(chan struct{}),
		address: netip.AddrFrom4([4]byte{10, 46, byte(1 + k.serial/200), byte(1 + k.serial%200)})}
	s.Name, s.Address, s.DNS, s.Device = name, p.address.String(), gateway, p.device
	p.sandbox = s
	text, err := json.Marshal(s)
	must(k.t, err)
	log, err := os.OpenFile(k.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(k.t, err)
	defer log.Close()
	p.process = exec.Command("/proc/self/exe")
	p.process.Env = append(os.Environ(), sandboxVariable+"="+string(text))
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS}
	begin, err := p.process.StdinPipe()
	must(k.t, err)
	must(k.t, p.process.Start())
	go func() { _ = p.process.Wait(); close(p.ended) }()
	host := "host" + strings.TrimPrefix(p.device, "pod")
	k.ip("link", "add", host, "type", "veth", "peer", "name", p.device, "netns", strconv.Itoa(p.process.Process.Pid))
	k.ip("link", "set", host, "master", "bridge", "up")
	must(k.t, begin.Close())
	k.mu.Lock()
	k.pods[name] = p
	k.mu.Unlock()
	return p
}

func (k *kubernetes) ip(args ...string) {
	k.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		k.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// variable is a reference to one in a value, or an escaped dollar.
var variable = regexp.MustCompile(`\$\$|\$\([A-Za-z0-9_.-]+\)`)

// expand replaces $(NAME), as Kubernetes does: a name that is unknown so far stays.
func expand(text string, known map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, is := known[found[2:len(found)-1]]; is {
			return value
		}
		return found
	})
}

// image reads what the Dockerfile gives containers of its own: variables and command.
func image(t *testing.T) (env map[string]string, entry, command []string) {
	t.Helper()
	text, err := os.ReadFile("../../docker/Dockerfile")
	must(t, err)
	text, _, _ = bytes.Cut(text, []byte("\nFROM coordd AS "))
	line := func(instruction string) []byte {
		found := regexp.MustCompile(`(?m)^` + instruction + ` (.*)$`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("the image has no %s", instruction)
		}
		return found[1]
	}
	env = make(map[string]string)
	for _, pair := range strings.Fields(string(line("ENV"))) {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	must(t, json.Unmarshal(line("ENTRYPOINT"), &entry))
	must(t, json.Unmarshal(line("CMD"), &command))
	return env, entry, command
}

// startServer starts a pod of the StatefulSet by its number.
func (k *kubernetes) startServer(number int) *pod {
	name := fmt.Sprintf("%s-%d", k.objects.set.Name, number)
	spec := k.objects.set.Spec.Template.Spec
	c := spec.Containers[0]
	group := *spec.SecurityContext.FSGroup
	s := sandbox{Program: program(k.t), Root: k.path("roots", name), UID: int(*spec.SecurityContext.RunAsUser),
		GID: int(*spec.SecurityContext.RunAsGroup), FSGroup: int(group)}
	env, entry, command := image(k.t)
	for _, e := range c.Env {
		env[e.Name] = expand(e.Value, env)
		if from := e.ValueFrom; from != nil && from.FieldRef.FieldPath == "metadata.name" {
			env[e.Name] = name
		}
	}
	if len(c.Command) > 0 {
		entry, command = c.Command, nil
	}
	if len(c.Args) > 0 {
		command = c.Args
	}
	for _, arg := range slices.Concat(entry, command) {
		s.Command = append(s.Command, expand(arg, env))
	}
	for name, value := range env {
		s.Env = append(s.Env, name+"="+value)
	}
	for _, m := range c.VolumeMounts {
		directory := k.path("volumes", m.Name+"-"+name)
		if m.Name == k.objects.set.Spec.VolumeClaimTemplates[0].Name {
			must(k.t, os.Chown(directory, 0, int(group)))
			must(k.t, os.Chmod(directory, 0o770|os.ModeSetgid))
		} else {
			k.volume(directory, volumeNamed(spec, m.Name), group)
		}
		s.Mounts = append(s.Mounts, mount{directory, m.MountPath, m.ReadOnly})
	}
	p := k.start(name, s)
	go p.probe(k.url(p, c.ReadinessProbe))
	return p
}

func volumeNamed(spec core.PodSpec, name string) core.Volume {
	return spec.Volumes[slices.IndexFunc(spec.Volumes, func(v core.Volume) bool { return v.Name == name })]
}

// updateVolumes brings the mounted files of the running servers up to date, as the kubelet does within a minute.
func (k *kubernetes) updateVolumes() {
	spec := k.objects.set.Spec.Template.Spec
	for number := range servers {
		for _, volume := range spec.Volumes {
			k.volume(k.path("volumes", fmt.Sprintf("%s-%s-%d", volume.Name, k.objects.set.Name, number)), volume,
				*spec.SecurityContext.FSGroup)
		}
	}
}

// path makes a directory of the test's, and returns its path.
func (k *kubernetes) path(elements ...string) string {
	path := filepath.Join(append([]string{k.directory}, elements...)...)
	must(k.t, os.MkdirAll(path, 0o755))
	return path
}

func (k *kubernetes) logFile(name string) string { return filepath.Join(k.path("logs"), name) }

func (k *kubernetes) log(name string) string {
	text, _ := os.ReadFile(k.logFile(name))
	return string(text)
}

// port returns the number of a named port of the container.
func (k *kubernetes) port(name string) string {
	ports := k.objects.set.Spec.Template.Spec.Containers[0].Ports
	at := slices.IndexFunc(ports, func(p core.ContainerPort) bool { return p.Name == name })
	return strconv.Itoa(int(ports[at].ContainerPort))
}

// url returns the address that a probe of a pod asks.
func (k *kubernetes) url(p *pod, probe *core.Probe) string {
	return "http://" + p.address.String() + ":" + k.port(probe.HTTPGet.Port.String()) + probe.HTTPGet.Path
}

// healthy reports whether a probe succeeds.
func healthy(url string) bool {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// probe keeps a pod's readiness up to date until the pod ends.
func (p *pod) probe(url string) {
	for {
		p.ready.Store(healthy(url))
		select {
		case <-p.ended:
			p.ready.Store(false)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lookup answers for the names of the rendered services.
func (k *kubernetes) lookup(name string) ([]netip.Addr, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, service := range k.objects.services {
		domain := service.Name + "." + service.Namespace + ".svc"
		host, is := strings.CutSuffix(name, "."+domain)
		headless := service.Spec.ClusterIP == core.ClusterIPNone
		if name != domain && !(is && headless) {
			continue
		}
		var addresses []netip.Addr
		for number := range servers {
			p := k.pods[fmt.Sprintf("%s-%d", k.objects.set.Name, number)]
			if p != nil && (name == domain || host == p.name) &&
				(p.ready.Load() || service.Spec.PublishNotReadyAddresses) {
				addresses = append(addresses, p.address)
			}
		}
		return addresses, len(addresses) > 0 || name == domain
	}
	return nil, false
}

// until waits for a state.
func (k *kubernetes) until(what string, reached func() bool) {
	k.t.Helper()
	deadline := time.Now().Add(waitMax)
	for !reached() {
		if time.Now().After(deadline) {
			k.t.Fatalf("waited for ever until %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (k *kubernetes) server(number int) *pod {
	return k.pods[fmt.Sprintf("%s-%d", k.objects.set.Name, number)]
}

// untilReady waits until servers are ready.
func (k *kubernetes) untilReady(numbers ...int) {
	k.t.Helper()
	for _, number := range numbers {
		k.until(fmt.Sprintf("server %d is ready", number), k.server(number).ready.Load)
	}
}

// end ends a pod by a signal.
func (k *kubernetes) end(p *pod, by syscall.Signal) {
	k.t.Helper()
	must(k.t, p.process.Process.Signal(by))
	k.until(p.name+" has ended", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	if code := p.process.ProcessState.ExitCode(); by == syscall.SIGTERM && code != 0 {
		k.t.Errorf("%s: exit code %d after SIGTERM", p.name, code)
	}
	k.mu.Lock()
	delete(k.pods, p.name)
	k.mu.Unlock()
}

// roll restarts one server after the other, each with a new address and only while the others are ready.
func (k *kubernetes) roll() {
	k.t.Helper()
	for number := servers - 1; number >= 0; number-- {
		k.untilReady(0, 1, 2)
		k.end(k.server(number), syscall.SIGTERM)
		k.startServer(number)
	}
	k.untilReady(0, 1, 2)
}

// exec runs a program in a pod's container, and returns its output and exit code.
func (k *kubernetes) exec(p *pod, stdin string, args ...string) (string, int) {
	s := p.sandbox
	tool := func(name string) string {
		path, err := exec.LookPath(name)
		must(k.t, err)
		return path
	}
	command := exec.Command(tool("nsenter"), append([]string{"--target", strconv.Itoa(p.process.Process.Pid), "--mount",
		"--net", "--pid", "--", tool("chroot"), fmt.Sprintf("--userspec=%d:%d", s.UID, s.GID),
		fmt.Sprintf("--groups=%d", s.FSGroup), s.Root}, args...)...)
	command.Env, command.Stdin = s.Env, strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	if err != nil && command.ProcessState == nil {
		k.t.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}
