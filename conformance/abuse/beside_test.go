//go:build linux

package abuse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/conformance/raw"
)

const (
	// besidePatience bounds the attempts of the good client at one thing before that counts as not served.
	besidePatience = time.Minute
	// lateAfter is the lateness of this process from which on it causes the loss of a session itself.
	lateAfter = time.Second
)

// beside has the good client do what programs do besides holding a session, each by itself, again and again.
// A call that is refused because there are too many fails at once; what else fails is tried again.
func (g *good) beside(ctx context.Context, s *server, binary string) {
	root := caller{g.conn, goodToken}
	// the first login of an address counts as a stranger's
	if _, err := root.login(ctx, "root", rootPassword); err != nil {
		g.fail(fmt.Errorf("the first login: %w", err))
	}
	for name, each := range map[string]func(ctx context.Context) error{
		"a unary call": func(ctx context.Context) error { return raw.DescribeNode(root.ctx(ctx), g.conn, nodePath) },
		"a call on a new connection": func(ctx context.Context) error {
			conns, err := raw.Dial(s.address, 1)
			if err != nil {
				return err
			}
			defer raw.Close(conns)
			return succeeded(Ydb_Discovery_V1.NewDiscoveryServiceClient(conns[0]).ListEndpoints(root.ctx(ctx),
				&Ydb_Discovery.ListEndpointsRequest{Database: "/local"}))
		},
		"a login": func(ctx context.Context) error {
			_, err := root.login(ctx, "root", rootPassword)
			return err
		},
		"a session that compresses": func(ctx context.Context) error { return compressed(ctx, s.address) },
		"/healthz":                  func(ctx context.Context) error { return healthz(ctx, s.HTTPAddress()) },
		"coordd health": func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, binary, "health", "--endpoint", "grpc://"+s.address,
				"--timeout", "20s").CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		},
	} {
		g.others.Go(func() {
			for ctx.Err() == nil {
				if err := patiently(ctx, each); err != nil && ctx.Err() == nil {
					g.fail(fmt.Errorf("%s: %w", name, err))
					return
				}
				g.did(name)
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// patiently tries until there is no error, it is over, or the caller is refused.
func patiently(ctx context.Context, each func(context.Context) error) error {
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, besidePatience/3)
		err := each(once)
		cancel()
		if err == nil || ctx.Err() != nil || time.Since(begun) > besidePatience || refused(err) {
			return err
		}
	}
}

// refused reports whether the server has turned a caller away because of others.
func refused(err error) bool {
	return status.Code(err) == codes.ResourceExhausted || strings.Contains(err.Error(), "Too many requests")
}

// compressed has a session whose messages are compressed take and release a lock.
func compressed(ctx context.Context, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := raw.Open(caller{conn, goodToken}.ctx(ctx), conn, &raw.Start{Path: nodePath, TimeoutMillis: 60_000})
	if err == nil {
		err = session.Acquire("packed", 1)
	}
	if err == nil {
		err = session.Release("packed")
	}
	if err != nil && strings.Contains(err.Error(), "Cluster state has no space left") {
		return nil
	}
	return err
}

func healthz(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		return errors.New(string(text))
	}
	return nil
}

// did counts what was done beside the session.
func (g *good) did(name string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.things == nil {
		g.things = make(map[string]int)
	}
	g.things[name]++
}

// lateness measures how late this process comes to the processor.
type lateness struct {
	worst atomic.Int64 // of the last seconds, in nanoseconds
	stop  chan struct{}
	end   sync.Once
}

func newLateness() *lateness {
	l := &lateness{stop: make(chan struct{})}
	go func() {
		const gap, kept = 10 * time.Millisecond, 10 * time.Second
		var at time.Time
		for last := time.Now(); ; {
			select {
			case <-l.stop:
				return
			case <-time.After(gap):
			}
			now := time.Now()
			if late := int64(now.Sub(last) - gap); late > l.worst.Load() || now.Sub(at) > kept {
				l.worst.Store(late)
				at = now
			}
			last = now
		}
	}()
	return l
}

func (l *lateness) late() bool { return time.Duration(l.worst.Load()) > lateAfter }

func (l *lateness) close() { l.end.Do(func() { close(l.stop) }) }
