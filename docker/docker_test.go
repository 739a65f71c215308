// Package docker_test runs the image and the compose files of this folder in a Docker engine. `make
// docker-test` builds what it needs and runs it; without that it has nothing to test.
package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
)

const (
	// waitMax bounds every wait. It is only ever reached by a test that fails.
	waitMax = 3 * time.Minute
	// The promises of docs/docker.md.
	imageBytesMax   = 30_000_000
	standInBytesMax = 50_000_000
	user            = "65532"
)

// image is the image to test.
func image(t *testing.T) string { return imageIn(t, "COORDD_IMAGE") }

// standInImage is the image of the stand-in.
func standInImage(t *testing.T) string { return imageIn(t, "COORDD_STANDIN_IMAGE") }

func imageIn(t *testing.T, variable string) string {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		t.Skip("no image to test: run make docker-test")
	}
	return name
}

// run runs a command, which has to succeed, and returns what it printed on stdout, without the last line's
// end.
func run(t *testing.T, environment []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitMax)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), environment...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimRight(stdout.String(), "\n")
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, nil, "docker", args...)
}

// container is a container by its id or name.
type container string

// hardened has the options with which a careful operator runs every container. Health is checked more often than by the
// image's default, to have done earlier.
var hardened = []string{"--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
	"--health-interval=500ms"}

// start runs the image, hardened, with further options of `docker run`, and publishes the port for clients in
// plain text.
func start(t *testing.T, port string, options ...string) container {
	t.Helper()
	args := append([]string{"run", "--detach", "--publish=127.0.0.1::" + port}, hardened...)
	c := container(docker(t, append(append(args, options...), image(t))...))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", c, c.log())
		}
		docker(t, "rm", "--force", "--volumes", string(c))
	})
	return c
}

func (c container) log() string {
	output, _ := exec.Command("docker", "logs", string(c)).CombinedOutput()
	return string(output)
}

// inspect returns what a template makes of the container.
func (c container) inspect(t *testing.T, template string) string {
	t.Helper()
	return docker(t, "inspect", "--format", template, string(c))
}

// healthy waits until the image's own health check passes.
func (c container) healthy(t *testing.T) {
	t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(waitMax)
	for {
		switch state := c.inspect(t, "{{.State.Status}} {{.State.Health.Status}}"); state {
		case "running healthy":
			return
		case "running starting", "running unhealthy", "restarting starting", "created starting":
		default:
			t.Fatalf("container %s is %s, not running\n%s", c, state, c.log())
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("container %s is not healthy: %s\n%s", c, c.inspect(t, "{{json .State.Health}}"),
				c.log())
		}
	}
}

// dial connects to a published port of the container.
func (c container) dial(t *testing.T, port string) *grpc.ClientConn {
	t.Helper()
	return dial(t, docker(t, "port", string(c), port+"/tcp"))
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conns, err := raw.Dial(address, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close(conns) })
	return conns[0]
}

// within is a context for the calls of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	t.Cleanup(cancel)
	return ctx
}

// open attaches a session to a node of database /local.
func open(t *testing.T, conn *grpc.ClientConn, path string) *raw.Session {
	t.Helper()
	return attach(t, new(raw.Session), conn, path)
}

// attach attaches a session to a node, a new one if it has no id. Its stream lives for some seconds in which no call is
// made, since only calls answer pings.
func attach(t *testing.T, session *raw.Session, conn *grpc.ClientConn, path string) *raw.Session {
	t.Helper()
	start := &raw.Start{Path: path, SessionId: session.ID, SeqNo: session.LastRequest(),
		TimeoutMillis: uint64(waitMax.Milliseconds()), Description: "docker"}
	attached, err := session.Open(within(t), conn, start)
	must(t, err)
	return attached
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lock makes a node and a semaphore with data, and holds it.
func lock(t *testing.T, conn *grpc.ClientConn, path string) *raw.Session {
	t.Helper()
	must(t, raw.CreateNode(within(t), conn, path))
	session := open(t, conn, path)
	must(t, session.Create("lock", 1))
	must(t, session.Update("lock", []byte("data of "+path)))
	must(t, session.Acquire("lock", 1))
	return session
}

// wantLock checks that the data of lock is there, and that the session owns it, or nobody if it is 0.
func wantLock(t *testing.T, conn *grpc.ClientConn, path string, owner uint64) {
	t.Helper()
	found, err := open(t, conn, path).Describe("lock", false)
	must(t, err)
	if got := string(found.GetData()); got != "data of "+path {
		t.Errorf("data of %s is %q", path, got)
	}
	owners := found.GetOwners()
	if owner == 0 && len(owners) != 0 || owner != 0 &&
		(len(owners) != 1 || owners[0].GetSessionId() != owner) {
		t.Errorf("owners of %s are %v, want session %d", path, owners, owner)
	}
}

// TestStandInImage holds the image of the stand-in against docs/docker.md.
func TestStandInImage(t *testing.T) {
	name := standInImage(t)
	if got := docker(t, "image", "inspect", "--format", "{{.Config.Entrypoint}} {{.Config.Cmd}} {{.Config.User}}",
		name); got != "[/coordd-standin] [] "+user+":"+user {
		t.Errorf("it runs %q", got)
	}
	size, err := strconv.Atoi(docker(t, "image", "inspect", "--format", "{{.Size}}", name))
	if err != nil || size > standInBytesMax {
		t.Errorf("the image has %d bytes, %v", size, err)
	}
}

// TestImage reads the image's metadata.
func TestImage(t *testing.T) {
	var inspected []struct {
		Size   int64
		Config struct {
			User, StopSignal      string
			Entrypoint, Cmd       []string
			ExposedPorts, Volumes map[string]struct{}
			Labels                map[string]string
		}
	}
	must(t, json.Unmarshal([]byte(docker(t, "image", "inspect", image(t))), &inspected))
	got := inspected[0]
	t.Logf("the image has %.1f MB", float64(got.Size)/1e6)
	if got.Size > imageBytesMax {
		t.Errorf("the image has %d bytes, more than %d", got.Size, imageBytesMax)
	}
	if got.Config.User != user+":"+user || got.Config.StopSignal != "SIGTERM" {
		t.Errorf("user %q, stop signal %q", got.Config.User, got.Config.StopSignal)
	}
	if entry := strings.Join(append(got.Config.Entrypoint, got.Config.Cmd...),
		" "); entry != "/coordd serve" {
		t.Errorf("it runs %q", entry)
	}
	for _, port := range []string{"2135/tcp", "2136/tcp", "2380/tcp", "8765/tcp"} {
		if _, exposed := got.Config.ExposedPorts[port]; !exposed {
			t.Errorf("port %s is not exposed", port)
		}
	}
	for _, volume := range []string{"/data", "/ydb_certs"} {
		if _, declared := got.Config.Volumes[volume]; !declared {
			t.Errorf("%s is no volume", volume)
		}
	}
	if notices := docker(t, "run", "--rm", image(t), "licenses"); !strings.HasPrefix(notices,
		"Third-party notices") {
		t.Errorf("its licences are %.100q", notices)
	}
	holder := docker(t, "create", image(t))
	defer docker(t, "rm", "--volumes", holder)
	licences := t.TempDir()
	docker(t, "cp", holder+":/licenses", licences)
	for _, name := range []string{"LICENSE", "THIRD-PARTY-NOTICES.txt"} {
		if _, err := os.Stat(filepath.Join(licences, "licenses", name)); err != nil {
			t.Error(err)
		}
	}
	version := docker(t, "run", "--rm", image(t), "version")
	if label := got.Config.Labels["org.opencontainers.image.version"]; !strings.HasPrefix(version,
		"coordd "+label+" ") {
		t.Errorf("the label says version %q, the program %q", label, version)
	}
}
