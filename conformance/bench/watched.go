package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/loopback"
	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/listen"
)

// lookPeriod is how often whoever watches reads all metrics and lists everything: several times as often as
// Prometheus does.
const lookPeriod = 3 * time.Second

// watchedServer is a server whose costs are compared with another one's.
type watchedServer struct {
	name    string
	process *serverProcess
	debug   string // its socket for developers; nobody answers there where the program knows none
	metrics string // the URL that is read all the time, empty if nobody watches
	costs   []cost
}

// cost is what the pairs of one run cost the server.
type cost struct {
	cpu            time.Duration // for a pair
	objects, bytes float64       // allocated for a pair; negative where the program does not tell
}

// measureWatched compares what a lock+unlock costs a server that nobody watches with what it costs one whose
// metrics are read and whose nodes, semaphores and sessions are listed all the time. What is counted for the
// metrics, and the events, cannot be turned off: against is another program without them, which the one that
// nobody watches is compared with.
func measureWatched(ctx context.Context, binary, against, dir string, runs, sessions int,
	length time.Duration) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var servers []*watchedServer
	defer func() {
		for _, s := range servers {
			_ = s.process.command.Process.Kill()
			_ = s.process.command.Wait()
		}
	}()
	for _, kind := range []struct {
		name, binary string
		watched      bool
	}{{filepath.Base(against), against, false}, {"not watched", binary, false}, {"watched", binary, true}} {
		if kind.binary == "" {
			continue
		}
		s, err := startWatched(kind.name, kind.binary,
			filepath.Join(dir, fmt.Sprint("watched-", len(servers))), kind.watched)
		if err != nil {
			return err
		}
		servers = append(servers, s)
		if err := createNode(ctx, s.process.address); err != nil {
			return err
		}
	}
	for round := range runs + 1 { // the first one warms up
		for i := range servers { // each is the first one in turn
			if err := servers[(round+i)%len(servers)].measure(ctx, sessions, length, round > 0); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%s, %d processors, %s, %d runs of %v with %d sessions\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), runs, length, sessions)
	fmt.Println("| server | processor us a pair | against the one above | middle half of the runs | allocations a pair | bytes a pair |")
	fmt.Println("| --- | --- | --- | --- | --- | --- |")
	for i, s := range servers {
		s.print(servers[max(i-1, 0)])
	}
	return servers[len(servers)-1].printLook(ctx)
}

// printLook says what it costs to be looked at once, without any load.
func (s *watchedServer) printLook(ctx context.Context) error {
	conns, err := raw.Dial(s.process.address, 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	const looks = 100
	before, err := s.process.cpu()
	if err != nil {
		return err
	}
	for range looks {
		if err := s.look(ctx, conns[0]); err != nil {
			return err
		}
	}
	after, err := s.process.cpu()
	fmt.Printf("\nA look at all metrics and all listings costs the server %s ms of processor time.\n",
		millis((after-before)/looks))
	return err
}

func startWatched(name, binary, dir string, watched bool) (*watchedServer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &watchedServer{name: name, debug: filepath.Join(dir, "debug.sock")}
	monitoring := "off"
	if watched {
		free, err := loopback.Listen()
		if err != nil {
			return nil, err
		}
		monitoring = free.Addr().String()
		s.metrics = "http://" + monitoring + "/metrics"
		if err := free.Close(); err != nil {
			return nil, err
		}
	}
	var err error
	s.process, err = startServerWith(binary, filepath.Join(dir, "data"),
		[]string{"COORDD_LISTEN_HTTP=" + monitoring, "COORDD_DEBUG_HTTP=" + s.debug})
	return s, err
}

// measure has sessions lock and unlock for a while.
func (s *watchedServer) measure(ctx context.Context, sessions int, length time.Duration, counts bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watched := make(chan error, 1)
	if s.metrics != "" {
		watching.Go(func() { watched <- s.watch(ctx) })
	}
	objects, bytes := s.allocated()
	cpu, err := s.process.cpu()
	if err != nil {
		cancel()
		return err
	}
	r, err := runPairs(ctx, s.process.address, sessions, length)
	if err != nil {
		cancel()
		return err
	}
	cpuAfter, err := s.process.cpu()
	cancel()
	watching.Wait()
	if err != nil {
		return err
	}
	if s.metrics != "" {
		if err := <-watched; err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	if !counts {
		return nil
	}
	c := cost{cpu: (cpuAfter - cpu) / time.Duration(r.steps), objects: -1, bytes: -1}
	if objects > 0 {
		objectsAfter, bytesAfter := s.allocated()
		c.objects, c.bytes = (objectsAfter-objects)/float64(r.steps), (bytesAfter-bytes)/float64(r.steps)
	}
	s.costs = append(s.costs, c)
	return nil
}

// allocated is how many objects, of how many bytes, the server has allocated since its start; 0 where it does
// not tell.
func (s *watchedServer) allocated() (objects, bytes float64) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return listen.DialSocket(ctx, s.debug)
		}}}
	response, err := client.Get("http://localhost/debug/pprof/heap?debug=1")
	if err != nil {
		return 0, 0
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, is := strings.CutPrefix(lines.Text(), "# Mallocs = "); is {
			_, _ = fmt.Sscan(text, &objects)
		}
		if text, is := strings.CutPrefix(lines.Text(), "# TotalAlloc = "); is {
			_, _ = fmt.Sscan(text, &bytes)
		}
	}
	return objects, bytes
}

// watch reads the metrics and lists everything, until ctx is done.
func (s *watchedServer) watch(ctx context.Context) error {
	conns, err := raw.Dial(s.process.address, 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := s.look(ctx, conns[0]); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (s *watchedServer) look(ctx context.Context, conn *grpc.ClientConn) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metrics, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", s.metrics, response.Status)
	}
	if err != nil {
		return err
	}
	inspect := adminpb.NewInspectClient(conn)
	return cmp.Or(
		pages(func(token string) (string, error) {
			r, err := inspect.ListNodes(ctx, &adminpb.ListNodesRequest{PageToken: token})
			return r.GetNextPageToken(), err
		}),
		pages(func(token string) (string, error) {
			r, err := inspect.ListSemaphores(ctx, &adminpb.ListSemaphoresRequest{PageToken: token})
			return r.GetNextPageToken(), err
		}),
		pages(func(token string) (string, error) {
			r, err := inspect.ListSessions(ctx, &adminpb.ListSessionsRequest{PageToken: token})
			return r.GetNextPageToken(), err
		}))
}

// pages reads a listing to its end.
func pages(page func(token string) (next string, err error)) error {
	for token := ""; ; {
		next, err := page(token)
		if err != nil || next == "" {
			return err
		}
		token = next
	}
}

func (s *watchedServer) print(above *watchedServer) {
	ratios := make([]float64, len(s.costs))
	for i := range s.costs {
		ratios[i] = float64(s.costs[i].cpu) / float64(above.costs[i].cpu)
	}
	slices.Sort(ratios)
	cpu := middle(slices.Clone(s.costs), func(c cost) time.Duration { return c.cpu }).cpu
	objects := middle(slices.Clone(s.costs), func(c cost) float64 { return c.objects }).objects
	bytes := middle(slices.Clone(s.costs), func(c cost) float64 { return c.bytes }).bytes
	allocations := "| |"
	if objects >= 0 {
		allocations = fmt.Sprintf("%.1f | %.0f |", objects, bytes)
	}
	fmt.Printf("| %s | %.1f | %.3f x | %.3f to %.3f | %s\n", s.name, float64(cpu)/float64(time.Microsecond),
		ratios[len(ratios)/2], ratios[len(ratios)/4], ratios[len(ratios)*3/4], allocations)
}
