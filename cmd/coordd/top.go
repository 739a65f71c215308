package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	topEvery = 2 * time.Second
	// topRows is how many locks and waits are shown.
	topRows = 10
	// topSize bounds the locks among which they are chosen.
	topSize = 1000
)

// topShown is what is going on at a time.
type topShown struct {
	Time  string     `json:"time"`  // by this machine's clock
	Whole bool       `json:"whole"` // false: there is more than was looked at
	Locks []*topLock `json:"locks"`
	Waits []*topWait `json:"waits"`
}

type topLock struct {
	Node    string   `json:"node"`
	Name    string   `json:"name"`
	Grants  *float64 `json:"grants_per_second"` // nil: not told
	Owners  uint64   `json:"owners"`
	Waiters uint64   `json:"waiters"`
	Held    string   `json:"-"`
}

type topWait struct {
	Node    string  `json:"node"`
	Name    string  `json:"name"`
	Session uint64  `json:"session"`
	OrderID uint64  `json:"order_id"`
	Since   *string `json:"since"`
	since   uint64
}

func topCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	var often looks
	command := askCommand(env, &question{use: "top [PATH]", stays: true,
		short: "Show the busiest locks and the longest waits, again and again",
		long: "Grants are shown to callers that may watch events: administrators, or with the PATH of one\n" +
			"node those that may read it. At a terminal each look replaces the last one.\n\n" +
			oursText,
		example: "  coordd top --times 1\n  coordd top app --times 1 -o json",
		check:   func(flags *pflag.FlagSet, _ []string) error { return often.check(flags) },
		run: func(ctx context.Context, c *caller, args []string) error {
			path := pathOr(c, args, "")
			var grants grantCount
			var watching sync.WaitGroup
			ctx, stop := context.WithCancel(ctx)
			defer watching.Wait()
			defer stop()
			watching.Go(func() { grants.follow(ctx, c, path) })
			return often.show(ctx, env.Stdout, out,
				func() (inText, error) { return c.look(ctx, path, &grants) })
		}}, out)
	often.declare(command.Flags(), topEvery)
	return command
}

// look asks for the semaphores that stand out, and keeps few of them.
func (c *caller) look(ctx context.Context, path string, grants *grantCount) (*topShown, error) {
	shown := &topShown{time.Now().UTC().Format(time.RFC3339), true, []*topLock{}, []*topWait{}}
	counted, seconds := grants.take()
	ctx, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	locks := make(map[semaphoreName]*topLock)
	for name := range counted { // most are free between two grants
		locks[name] = &topLock{Node: name.node, Name: name.name, Held: "free"}
	}
	for _, order := range []adminpb.PageRequest_Order{adminpb.PageRequest_OLDEST_WAIT,
		adminpb.PageRequest_LONGEST_HELD} {
		page, err := c.page(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES, Path: path, Order: order,
			PageSize: topSize})
		if err != nil {
			return nil, err
		}
		shown.Whole = shown.Whole && !page.GetMore()
		for _, s := range page.GetSemaphores() {
			name := semaphoreName{s.GetPath(), string(s.GetName())}
			locks[name] = &topLock{Node: name.node, Name: name.name, Owners: s.GetOwnerCount(),
				Waiters: s.GetWaiterCount(), Held: heldText(s.GetCount(), s.GetLimit(), s.GetEphemeral())}
			for _, l := range s.GetWaiters() {
				if order == adminpb.PageRequest_OLDEST_WAIT && len(shown.Waits) < topRows {
					shown.Waits = append(shown.Waits, &topWait{name.node, name.name, l.GetSession(), l.GetOrderId(),
						timeShown(l.GetSinceMillis()), l.GetSinceMillis()})
				}
			}
		}
	}
	for name, lock := range locks {
		if counted != nil {
			rate := float64(counted[name]) / seconds
			lock.Grants = &rate
		}
		shown.Locks = append(shown.Locks, lock)
	}
	slices.SortFunc(shown.Locks, func(a, b *topLock) int {
		if a.Grants != nil && *a.Grants != *b.Grants {
			return cmp.Compare(*b.Grants, *a.Grants)
		}
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), cmp.Compare(b.Owners, a.Owners), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Name, b.Name))
	})
	shown.Locks = shown.Locks[:min(len(shown.Locks), topRows)]
	return shown, nil
}

func (t *topShown) text(w io.Writer) {
	more := ""
	if !t.Whole {
		more = ", of those held or awaited for longest: there are too many"
	}
	fmt.Fprintf(w, "%s%s\n", t.Time, more)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tLOCK\tGRANTS/S\tHELD\tOWNERS\tWAITERS")
	for _, l := range t.Locks {
		grants := "?"
		if l.Grants != nil {
			grants = fmt.Sprintf("%.1f", *l.Grants)
		}
		_ = cmdline.PrintRow(table, l.Node, fmt.Sprintf("%q", l.Name), grants, l.Held, fmt.Sprint(l.Owners),
			fmt.Sprint(l.Waiters))
	}
	table.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(table, "NODE\tLOCK\tWAITS\tORDER ID\tSINCE")
	for _, l := range t.Waits {
		_ = cmdline.PrintRow(table, l.Node, fmt.Sprintf("%q", l.Name), fmt.Sprint("session ", l.Session),
			fmt.Sprint(l.OrderID),
			dayText(l.since))
	}
	table.Flush()
}

type semaphoreName struct{ node, name string }

// grantsMost bounds how many locks are counted between two looks.
const grantsMost = 100_000

// grantCount counts what is granted, as far as it is told.
type grantCount struct {
	mu    sync.Mutex
	since time.Time // zero: not told
	count map[semaphoreName]int
}

// take returns what was granted since the last time, nil where that is not told.
func (g *grantCount) take() (count map[semaphoreName]int, seconds float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since.IsZero() {
		return nil, 0
	}
	now := time.Now()
	count, seconds = g.count, max(now.Sub(g.since).Seconds(), 0.001)
	g.count, g.since = make(map[semaphoreName]int), now
	return count, seconds
}

// follow counts until ctx ends, or nobody tells.
func (g *grantCount) follow(ctx context.Context, c *caller, path string) {
	for ctx.Err() == nil {
		err := g.followOnce(ctx, c, path)
		g.mu.Lock()
		g.since = time.Time{}
		g.mu.Unlock()
		switch status.Code(err) {
		case codes.PermissionDenied, codes.Unimplemented, codes.NotFound, codes.InvalidArgument,
			codes.Unauthenticated:
			return
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func (g *grantCount) followOnce(ctx context.Context, c *caller, path string) error {
	conn, err := c.Conn()
	if err != nil {
		return err
	}
	with, err := c.With(ctx, conn)
	if err != nil {
		return err
	}
	stream, err := adminpb.NewInspectClient(conn).Watch(with, &adminpb.WatchRequest{Path: path})
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		g.mu.Lock()
		switch event.GetKind() {
		case adminpb.Event_BEGIN:
			g.since, g.count = time.Now(), make(map[semaphoreName]int)
		case adminpb.Event_LOCK_GRANTED:
			if name := (semaphoreName{event.GetPath(), string(event.GetSemaphore())}); len(g.count) < grantsMost ||
				g.count[name] > 0 {
				g.count[name]++
			}
		}
		g.mu.Unlock()
	}
}
