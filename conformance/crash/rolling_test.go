//go:build linux

package crash

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestClusterRollingRestart restarts all servers under load by the script that the documentation names, CLUSTER_ROUNDS
// times, once by default. Whenever it restarts one, both others have to serve, and no session may run out.
func TestClusterRollingRestart(t *testing.T) {
	besideOthers(t)
	seed := seedOf(t)
	x := &exercise{t: t, random: rand.New(rand.NewPCG(seed, 0)), cluster: newCluster(t, false)}
	x.begin(seed)
	for range max(1, roundsOf(t)) {
		x.step("restart all servers", (*exercise).rollingRestart)
	}
	if n := x.load.expired(); n > 0 {
		t.Errorf("%d sessions ran out", n)
	}
	x.end()
}

// rollingRestart runs the script. It asks for each restart through one named pipe, and is answered through another.
func (x *exercise) rollingRestart() error {
	x.fallible = setOf(0, 1, 2)
	dir := x.t.TempDir()
	var pipes [2]*os.File
	for i, name := range []string{"asked", "done"} {
		name = filepath.Join(dir, name)
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			return err
		}
		pipe, err := os.OpenFile(name, os.O_RDWR, 0) // which waits for no other side
		if err != nil {
			return err
		}
		defer pipe.Close()
		pipes[i] = pipe
	}
	arguments := []string{"../../deploy/rolling-restart.sh"}
	for _, i := range x.random.Perm(servers) {
		arguments = append(arguments, "grpc://"+x.listen[i]+"/local")
	}
	script := exec.CommandContext(x.ctx, "sh", arguments...)
	script.Env = append(os.Environ(), "PATH="+filepath.Dir(x.binary)+":"+os.Getenv("PATH"), "WAIT=1m", "DIR="+dir,
		`RESTART=[ "$host" = 127.0.0.1 ] && echo "$server" >"$DIR/asked" && read -r answer <"$DIR/done"`)
	output := new(strings.Builder)
	script.Stdout, script.Stderr = output, output
	if err := script.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- script.Wait()
		fmt.Fprintln(pipes[0], "ended")
	}()
	restarted, starting := 0, make([]error, servers)
	for lines := bufio.NewScanner(pipes[0]); lines.Scan() && lines.Text() != "ended"; restarted++ {
		address := strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "grpc://"), "/local")
		i := slices.Index(x.listen, address)
		if i < 0 {
			return fmt.Errorf("the script restarts %s", lines.Text())
		}
		starting[i] = x.restartAlone(i)
		fmt.Fprintln(pipes[1], "restarted")
	}
	err := errors.Join(append(starting, <-ended)...)
	if err == nil && restarted != servers {
		err = fmt.Errorf("%d servers were restarted", restarted)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, output)
	}
	for i := range servers {
		if p := x.process(i); p != nil {
			_, ready := p.Ready()
			err = errors.Join(err, ready)
		}
	}
	return err
}

// restartAlone restarts a server and does not wait until it serves. The others have to.
func (x *exercise) restartAlone(i int) error {
	a, b := others(i)
	for _, other := range []int{a, b} {
		if _, err := x.commandAt(other, "health"); err != nil {
			return fmt.Errorf("server %d is restarted, and server %d does not serve: %w", i, other, err)
		}
	}
	if err := x.terminate(i); err != nil {
		return err
	}
	_, err := x.launch(i)
	return err
}
