package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"

	"github.com/coordd/coordd/conformance/bench/machine"
)

// probeStream is the median time of one message to an empty gRPC server in another process and back.
func probeStream(ctx context.Context) (time.Duration, error) {
	address, stop, err := startEcho(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	return machine.Stream(ctx, address)
}

func serveEcho() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	server := machine.NewEcho()
	Ydb_RateLimiter_V1.RegisterRateLimiterServiceServer(server, echoLimiter{})
	return server.Serve(listener)
}

// serverProcess is a coordd server under measurement.
type serverProcess struct {
	command *exec.Cmd
	address string
}

func startServer(binary, dir string, more ...string) (*serverProcess, error) {
	return startServerWith(binary, dir, nil, more...)
}

// startServerWith is startServer with variables of the environment, which older programs do not mind where
// they do not know them.
func startServerWith(binary, dir string, environment []string, more ...string) (*serverProcess, error) {
	arguments := append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--log-level",
		"error"}, more...)
	command := exec.Command(binary, arguments...)
	// a flag would end older programs
	command.Env = append(append(os.Environ(), "COORDD_LOOPBACK_ADMIN=true"), environment...)
	return begin(command)
}

// begin starts a server that prints its address when it is ready.
func begin(command *exec.Cmd) (*serverProcess, error) {
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	var line string
	if _, err := fmt.Fscanln(out, &line); err != nil {
		return nil, fmt.Errorf("the server did not get ready: %w", err)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(line, "grpc://"), "/local")
	return &serverProcess{command, address}, nil
}

func (p *serverProcess) stop() error {
	if err := p.command.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return p.command.Wait()
}

// resident is the process's resident memory in bytes.
func (p *serverProcess) resident() (int64, error) { return machine.Resident(p.command.Process.Pid) }

// cpu is the processor time that the process has used.
func (p *serverProcess) cpu() (time.Duration, error) { return machine.CPU(p.command.Process.Pid) }
