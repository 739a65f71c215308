// Package machine measures the machine that runs the benchmarks: its floor, one durable write and one round trip on a
// gRPC stream, and what a process uses of it. It reads Linux's /proc.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/load"
)

// durableWrites writes to a preallocated file and makes each write durable.
func durableWrites(dir string, size int64, n int) (writes, syncs load.Times, err error) {
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return nil, nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), 0, 0, max(size*int64(n), 64<<20))
	for i := int64(0); i < int64(n) && err == nil; i++ {
		begun := time.Now()
		_, err = f.WriteAt(make([]byte, size), i*size)
		written := time.Now()
		err = errors.Join(err, unix.Fdatasync(int(f.Fd())))
		writes, syncs = append(writes, written.Sub(begun)), append(syncs, time.Since(written))
	}
	return writes, syncs, err
}

// Sync is the median time of writing 200 bytes to a preallocated file and making them durable.
func Sync(dir string) (time.Duration, error) {
	both, syncs, err := durableWrites(dir, 200, 2000)
	for i := range syncs {
		both[i] += syncs[i]
	}
	return both.Percentile(50), err
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
	took := make(load.Times, 0, 10_000)
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
	return took.Percentile(50), nil
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

// field returns the value of a line "name: value" of a file below /proc, "" without one.
func field(file, name string) string {
	text, _ := os.ReadFile("/proc/" + file)
	_, after, _ := strings.Cut("\n"+string(text), "\n"+name)
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(strings.TrimLeft(line, "\t :"))
}

// kibibytes returns the bytes of a line "name: number kB".
func kibibytes(file, name string) (int64, error) {
	var n int64
	_, err := fmt.Sscan(field(file, name), &n)
	return n << 10, err
}

// Resident is a process's resident memory in bytes.
func Resident(pid int) (int64, error) { return kibibytes(fmt.Sprintf("%d/status", pid), "VmRSS") }

// tick is the unit of processor time in /proc.
const tick = time.Second / 100

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
	return time.Duration(user+system) * tick, nil
}

// String describes the machine in a line.
func String() string {
	memory, _ := kibibytes("meminfo", "MemTotal")
	return fmt.Sprintf("%s, %.0f GiB, Linux %s", field("cpuinfo", "model name"), float64(memory)/(1<<30),
		field("sys/kernel/osrelease", ""))
}

// Load is the machine's load over the last minute.
func Load() string {
	first, _, _ := strings.Cut(field("loadavg", ""), " ")
	return first
}

// Busy returns how long the machine's processors have been in use by processes, and how long the machine below took
// them away, since the start, to 10 ms. Interrupts are left out: they are nobody's.
func Busy() (used, stolen time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	var user, nice, system, idle, wait, hard, soft, steal int64
	_, err = fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &hard,
		&soft, &steal)
	return time.Duration(user+nice+system) * tick, time.Duration(steal) * tick, err
}

// Probes are the 99th percentiles of what a program that does little else has to wait for.
type Probes struct {
	Write, Sync time.Duration // of 4 KiB into a preallocated file, and of making them durable
	Sleep       time.Duration // of 1 ms
}

// Probe measures them in a directory, within a second or two.
func Probe(dir string) (Probes, error) {
	const samples = 200
	writes, syncs, err := durableWrites(dir, 4<<10, samples)
	var sleeps load.Times
	for range samples {
		begun := time.Now()
		time.Sleep(time.Millisecond)
		sleeps = append(sleeps, time.Since(begun))
	}
	return Probes{writes.Percentile(99), syncs.Percentile(99), sleeps.Percentile(99)}, err
}
