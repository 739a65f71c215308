package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

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
)

// measureWatched compares what a lock+unlock costs a server that nobody watches with what it costs one whose
// metrics are read and whose nodes, semaphores and sessions are listed all the time. What is counted for the
// metrics, and the events, cannot be turned off: against is another program without them, which the one that
// nobody watches is compared with.
func (b *bench) measureWatched(ctx context.Context) error {
	t := newTurn(ctx)
	defer t.end()
	names := []string{unwatched, watched}
	if b.against != "" {
		names = append(names, older)
	}
	var all []*contestant
	for _, name := range names {
		binary := b.coordd
		if name == older {
			binary = b.against
		}
		s, err := newCoordd(name, binary).launchIn(t, filepath.Join(b.dir, "watched"))
		if err != nil {
			return err
		}
		all = append(all, &contestant{name: name, client: rawClient, servers: servers{s}})
		b.book.contestants = append(b.book.contestants, name)
	}
	b.warm(ctx, all)
	b.inTurns(ctx, w1, all, b.runs, b.lockWatched)
	if err := b.compared(unwatched); err != nil {
		return err
	}
	conns, err := rawConns(t, all[1].servers[0].address, 1)
	if err != nil {
		return err
	}
	cpu, err := all[1].servers.spent(func() (err error) {
		for range looks {
			err = cmp.Or(err, all[1].servers[0].look(t, conns[0]))
		}
		return err
	})
	fmt.Printf("A look at all metrics and all listings costs the server %.3f ms of processor time.\n",
		millis(cpu/looks))
	return err
}

// lockWatched is W1, with looks beside it if the contestant is the watched one.
func (b *bench) lockWatched(t *turn, c *contestant) error {
	server := c.servers[0]
	watching, stop := context.WithCancel(t)
	defer stop()
	looked := make(chan error, 1)
	if c.name == watched {
		conns, err := rawConns(t, server.address, 1)
		if err != nil {
			return err
		}
		go func() {
			var err error
			for err == nil && wait(watching, lookPeriod) {
				if err = server.look(watching, conns[0]); watching.Err() != nil {
					err = nil
				}
			}
			looked <- err
		}()
	} else {
		looked <- nil
	}
	objects, bytes := server.allocated(t)
	r, err := b.lockAt(t, c, server.address, false, b.n)
	objectsAfter, bytesAfter := server.allocated(t)
	stop() // the looks
	err = b.add(w1, b.n, c.name, pairsFigure, r, cmp.Or(err, <-looked))
	if err == nil && objects > 0 {
		b.book.add(cell{w1, b.n, "allocations each"}, c.name, (objectsAfter-objects)/r.steps)
		b.book.add(cell{w1, b.n, "bytes allocated each"}, c.name, (bytesAfter-bytes)/r.steps)
	}
	return err
}

// allocated returns how many objects, of how many bytes, the server has allocated since its start; 0 if it
// shows no profiles.
func (p *process) allocated(ctx context.Context) (objects, bytes float64) {
	url := "http://" + p.debug + "/debug/pprof/heap?debug=1"
	objects, _ = value(ctx, url, "# Mallocs = ")
	bytes, _ = value(ctx, url, "# TotalAlloc = ")
	return objects, bytes
}

// look reads the metrics, and all listings to their ends.
func (p *process) look(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := fetch(ctx, "http://"+p.metrics+"/metrics")
	inspect := adminpb.NewInspectClient(conn)
	for _, kind := range []adminpb.PageRequest_Kind{adminpb.PageRequest_NODES, adminpb.PageRequest_SEMAPHORES,
		adminpb.PageRequest_SESSIONS} {
		for token := ""; err == nil; {
			var page *adminpb.Page
			page, err = inspect.List(ctx, &adminpb.PageRequest{Kind: kind, PageToken: token})
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
	}
	return err
}
