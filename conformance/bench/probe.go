package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/raw"
)

// probeSync is the median time of writing 200 bytes to a preallocated file and making them durable.
func probeSync(dir string) (time.Duration, error) {
	const size, writes = 64 << 20, 2000
	f, err := os.Create(filepath.Join(dir, "sync-probe"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		return 0, err
	}
	took := make([]time.Duration, 0, writes)
	for i := range writes {
		start := time.Now()
		if _, err := f.WriteAt(make([]byte, 200), int64(i)*200); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	return percentile(took, 50), nil
}

// probeStream is the median time of one message to an empty gRPC server in another process and back.
func probeStream(ctx context.Context) (time.Duration, error) {
	address, stop, err := startEcho(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	conns, err := raw.Dial(address, 1)
	if err != nil {
		return 0, err
	}
	defer raw.Close(conns)
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conns[0]).Session(ctx)
	if err != nil {
		return 0, err
	}
	ping := &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{
		Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 1}}}
	took := make([]time.Duration, 0, 10_000)
	for range cap(took) {
		start := time.Now()
		if err := stream.Send(ping); err != nil {
			return 0, err
		}
		if _, err := stream.Recv(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	return percentile(took, 50), nil
}

// echoServer answers every message with an empty one: what gRPC itself costs.
type echoServer struct {
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer
}

func (echoServer) Session(s Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	pong := &Ydb_Coordination.SessionResponse{Response: &Ydb_Coordination.SessionResponse_Pong{
		Pong: &Ydb_Coordination.SessionResponse_PingPong{Opaque: 1}}}
	for {
		if _, err := s.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Send(pong); err != nil {
			return err
		}
	}
}

func serveEcho() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	server := grpc.NewServer()
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(server, echoServer{})
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

// startServerWith is startServer with variables of the environment, which older programs do not mind where they do not know
// them.
func startServerWith(binary, dir string, environment []string, more ...string) (*serverProcess, error) {
	arguments := append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--log-level", "error"}, more...)
	command := exec.Command(binary, arguments...)
	command.Env = append(append(os.Environ(), "COORDD_LOOPBACK_ADMIN=true"), environment...) // a flag would end older programs
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
func (p *serverProcess) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kib int64
	_, err = fmt.Sscan(after, &kib)
	return kib << 10, err
}

// cpu is the processor time that the process has used.
func (p *serverProcess) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	const ticksPerSecond = 100
	return time.Duration(user+system) * time.Second / ticksPerSecond, nil
}

func percentile(took []time.Duration, p int) time.Duration {
	slices.Sort(took)
	return took[min(len(took)-1, len(took)*p/100)]
}
