// Package machine says what the machine gives the benchmarks: its floor, one durable write and one round trip
// on a gRPC stream, and what a process uses of it. It reads Linux's /proc.
package machine

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/raw"
)

// Sync is the median time of writing 200 bytes to a preallocated file and making them durable.
func Sync(dir string) (time.Duration, error) {
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
	return Percentile(took, 50), nil
}

// Stream is the median time of one message to a server made by NewEcho, in another process, and back.
func Stream(ctx context.Context, address string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
	return Percentile(took, 50), nil
}

// echoServer answers every message with an empty one: what gRPC itself costs.
type echoServer struct {
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer
}

// NewEcho returns an empty gRPC server, without listeners.
func NewEcho() *grpc.Server {
	server := grpc.NewServer()
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(server, echoServer{})
	return server
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

// Resident is a process's resident memory in bytes.
func Resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kib int64
	_, err = fmt.Sscan(after, &kib)
	return kib << 10, err
}

// CPU is the processor time that a process has used, to 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
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

// Percentile sorts durations, of which there is at least one, and returns the one that p per cent are below.
func Percentile(took []time.Duration, p int) time.Duration {
	slices.Sort(took)
	return took[min(len(took)-1, len(took)*p/100)]
}

// String says in a line what the machine is.
func String() string {
	model, memory := "unknown processor", ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, found := strings.Cut(string(text), "model name"); found {
			line, _, _ := strings.Cut(after, "\n")
			model = strings.TrimSpace(strings.TrimLeft(line, "\t :"))
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			memory = fmt.Sprintf(", %.0f GiB", float64(kib)/(1<<20))
		}
	}
	kernel := ""
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = ", Linux " + strings.TrimSpace(string(text))
	}
	return model + memory + kernel
}

// Load is the machine's load over the last minute, as /proc/loadavg says it.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
