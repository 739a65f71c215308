package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// lookPeriod is the time between two looks, in each of which all metrics are read and everything is
	// listed: several times as often as Prometheus reads them.
	lookPeriod = 3 * time.Second
	// looks is the number of looks that are measured by themselves.
	looks = 100

	unwatched = "not watched"
	watched   = "watched"

	objectsFigure = "allocations each"
	heapFigure    = "bytes allocated each"
)

// measureWatched compares what a lock+unlock costs a server that nobody watches with what it costs one whose
// metrics are read and whose nodes, semaphores and sessions are listed all the time. What is counted for the
// metrics, and the events, cannot be turned off: against is another program without them, which the one that
// nobody watches is compared with.
func (b *bench) measureWatched(ctx context.Context, against string, sessions int) error {
	programs := []struct{ name, binary string }{{unwatched, b.coordd}, {watched, b.coordd}}
	if against != "" {
		programs = append(programs, struct{ name, binary string }{older, against})
	}
	var all []*contestant
	for _, p := range programs {
		s, err := newCoordd(p.name, p.binary).launch(ctx, filepath.Join(b.dir, "watched"), 1)
		if err != nil {
			return err
		}
		defer s.kill()
		all = append(all, &contestant{name: p.name, client: rawClient, servers: s})
		b.book.contestants = append(b.book.contestants, p.name)
	}
	b.warm(ctx, all)
	b.inTurns(ctx, w1, all, b.runs, func(t *turn, c *contestant) error {
		return b.lockWatched(t, c, sessions)
	})
	fmt.Println(b.head() + b.book.table() + "\nOf the one that nobody watches:\n\n" + b.book.ratios(unwatched))
	if err := b.failure(); err != nil {
		return err
	}
	each, err := costOfLook(ctx, all[1].servers[0])
	fmt.Printf("A look at all metrics and all listings costs the server %.3f ms of processor time.\n",
		millis(each))
	return err
}

// lockWatched is W1, with looks beside it if the contestant is the watched one.
func (b *bench) lockWatched(t *turn, c *contestant, sessions int) error {
	server := c.servers[0]
	watching, stop := context.WithCancel(t)
	looked := make(chan error, 1)
	if c.name == watched {
		go func() { looked <- server.watch(watching) }()
	} else {
		looked <- nil
	}
	objects, bytes := server.allocated(t)
	r, err := lock(t, c, server.address, load.Pairs, sessions, b.length)
	objectsAfter, bytesAfter := server.allocated(t)
	stop()
	if err := cmp.Or(err, <-looked); err != nil {
		return err
	}
	b.add(w1, sessions, c.name, pairsFigure, r)
	if objects > 0 {
		b.book.add(cell{w1, sessions, objectsFigure}, c.name, (objectsAfter-objects)/r.steps)
		b.book.add(cell{w1, sessions, heapFigure}, c.name, (bytesAfter-bytes)/r.steps)
	}
	return nil
}

// costOfLook is the processor time that one look costs a server, without any load.
func costOfLook(ctx context.Context, server *process) (time.Duration, error) {
	t := newTurn(ctx)
	defer t.end()
	conns, err := rawConns(t, server.address, 1)
	if err != nil {
		return 0, err
	}
	before, err := server.cpu()
	for range looks {
		err = cmp.Or(err, server.look(t, conns[0]))
	}
	if err != nil {
		return 0, err
	}
	after, err := server.cpu()
	return (after - before) / looks, err
}

// allocated returns how many objects, of how many bytes, the server has allocated since its start; 0 if it
// shows no profiles.
func (p *process) allocated(ctx context.Context) (objects, bytes float64) {
	url := "http://" + p.debug + "/debug/pprof/heap?debug=1"
	objects, _ = value(ctx, url, "# Mallocs = ")
	bytes, _ = value(ctx, url, "# TotalAlloc = ")
	return objects, bytes
}

// watch looks again and again, until ctx is done.
func (p *process) watch(ctx context.Context) error {
	t := newTurn(ctx)
	defer t.end()
	conns, err := rawConns(t, p.address, 1)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := p.look(ctx, conns[0]); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (p *process) look(ctx context.Context, conn *grpc.ClientConn) error {
	if _, err := fetch(ctx, "http://"+p.metrics+"/metrics"); err != nil {
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
