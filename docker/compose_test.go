package docker_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testserver"
)

// project is a started compose file.
type project struct {
	t           *testing.T
	name        string
	command     []string
	environment []string
}

// compose starts a compose file of this folder with the ports that the variables name.
func compose(t *testing.T, file string, ports map[string]string) *project {
	t.Helper()
	p := &project{t: t, name: "coordd-test-" + freePort(t), command: []string{"docker", "compose"},
		environment: []string{"COORDD_IMAGE=" + image(t)}}
	if exec.Command("docker", "compose", "version").Run() != nil {
		if exec.Command("docker-compose", "version").Run() != nil {
			t.Skip("no docker compose to test the compose files with")
		}
		p.command = []string{"docker-compose"}
	}
	for name, port := range ports {
		p.environment = append(p.environment, name+"="+port)
	}
	p.command = append(p.command, "--file", file, "--project-name", p.name)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.run("logs", "--no-color"))
		}
		p.run("down", "--volumes")
	})
	p.run("up", "--detach")
	return p
}

func (p *project) run(args ...string) string {
	p.t.Helper()
	args = append(p.command[1:len(p.command):len(p.command)], args...)
	return run(p.t, p.environment, p.command[0], args...)
}

// container is that of a service.
func (p *project) container(service string) container {
	p.t.Helper()
	return container(docker(p.t, "ps", "--all", "--quiet", "--no-trunc",
		"--filter=label=com.docker.compose.project="+p.name,
		"--filter=label=com.docker.compose.service="+service))
}

// freePort is one that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(testserver.Address(t))
	must(t, err)
	return port
}

// TestCompose starts one server, and the same again.
func TestCompose(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	p := compose(t, "compose.yaml", map[string]string{"COORDD_PORT": port})
	p.container("coordd").healthy(t)
	owner := lock(t, dial(t, "127.0.0.1:"+port), "/local/node").ID
	p.run("down")
	p.run("up", "--detach")
	p.container("coordd").healthy(t)
	wantLock(t, dial(t, "127.0.0.1:"+port), "/local/node", owner)
}

// TestComposeCluster starts three servers, kills one and wants the others to go on, with the same lock.
func TestComposeCluster(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	ports := []string{freePort(t), freePort(t), freePort(t)}
	p := compose(t, "compose.cluster.yaml", map[string]string{"COORDD_PORT_A": ports[0],
		"COORDD_PORT_B": ports[1], "COORDD_PORT_C": ports[2]})
	for _, name := range names {
		p.container(name).healthy(t)
	}
	if status := docker(t, "exec", string(p.container("b")), "/coordd", "cluster",
		"status"); !strings.Contains(status, "leads, term") {
		t.Errorf("by the administrator's socket: %q", status)
	}
	for victim, name := range names {
		survivor, path := (victim+1)%len(names), "/local/"+name
		holder := lock(t, dial(t, "127.0.0.1:"+ports[survivor]), path)
		killed := p.container(name)
		docker(t, "kill", string(killed))

		must(t, holder.Update("lock", []byte("data of "+path))) // on the same stream as before
		wantLock(t, dial(t, "127.0.0.1:"+ports[(victim+2)%len(names)]), path, holder.ID)
		docker(t, "start", string(killed))
		killed.healthy(t)
		wantLock(t, dial(t, "127.0.0.1:"+ports[victim]), path, holder.ID)
		must(t, attach(t, holder, dial(t, "127.0.0.1:"+ports[survivor]), path).Release("lock"))
	}
	containers := []container{p.container("a"), p.container("b"), p.container("c")}
	p.run("stop", "--timeout", "10")
	for i, c := range containers {
		if code := c.inspect(t, "{{.State.ExitCode}}"); code != "0" {
			t.Errorf("%s: exit code %s after a stop, want 0\n%s", names[i], code, c.log())
		}
	}
}
