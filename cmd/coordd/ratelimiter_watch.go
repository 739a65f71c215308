package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/server/adminpb"
)

const (
	resourcesEvery = time.Second
	// resourcesMost bounds how many resources are watched.
	resourcesMost = 10_000
)

// resourcesShown is what resources do at a time.
type resourcesShown struct {
	Time      string         `json:"time"`  // by this machine's clock
	Whole     bool           `json:"whole"` // false: there are more
	Resources []*resourceRow `json:"resources"`
	Unknown   []string       `json:"buckets_unknown"`
}

func (p *program) resourceWatchCommand() *cobra.Command {
	out := new(outputFlag)
	var often looks
	command := p.untilStopped(&question{use: "watch [NODE] [RESOURCE]",
		short: "Show what resources of rate limiters have and hand out, again and again",
		long:  "What is handed out in a second is counted from one look to the next, so the first one does\nnot have it. At a terminal each look takes the place of the last one.\n\n" + oursText,
		example: `  coordd ratelimiter create app reports --rate 100
  coordd ratelimiter watch app --times 1
  coordd ratelimiter watch app reports --every 200ms --times 2 -o jsonl`,
		check: func(flags *pflag.FlagSet, args []string) error {
			if err := often.check(flags); err != nil || len(args) < 2 {
				return err
			}
			return checkResource(args[1])
		},
		run: func(ctx context.Context, c *caller, args []string) error {
			w := &resourceWatch{path: pathOr(c, args, "")}
			if len(args) > 1 {
				w.resource = args[1]
			}
			return often.show(ctx, p.stdout, out, func() (inText, error) { return w.look(ctx, c) })
		}}, out)
	often.declare(command.Flags(), resourcesEvery)
	return command
}

// resourceWatch remembers what it has seen last.
type resourceWatch struct {
	path, resource string
	at             time.Time
	last           map[bucketName]*adminpb.ResourceBucket
}

// bucketName is a resource, which may be dropped and made anew, on a server.
type bucketName struct {
	node     string
	resource uint64
	server   string
}

func (w *resourceWatch) look(ctx context.Context, c *caller) (*resourcesShown, error) {
	now := time.Now()
	shown := &resourcesShown{Time: now.UTC().Format(time.RFC3339Nano), Whole: true,
		Resources: []*resourceRow{}, Unknown: []string{}}
	seen := make(map[bucketName]*adminpb.ResourceBucket)
	asking, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	err := c.resources(asking, w.path, w.resource, func(page *adminpb.ListResourcesResponse) error {
		for _, unknown := range page.GetUnknown() {
			if !slices.Contains(shown.Unknown, unknown) {
				shown.Unknown = append(shown.Unknown, unknown)
			}
		}
		for _, r := range page.GetResources() {
			if len(shown.Resources) == resourcesMost {
				shown.Whole = false
				return errEnough
			}
			row := rowOf(r)
			row.Flow = w.flow(r, seen, now.Sub(w.at).Seconds())
			shown.Resources = append(shown.Resources, row)
		}
		return nil
	})
	if !shown.Whole {
		err = nil
	}
	slices.SortStableFunc(shown.Resources, func(a, b *resourceRow) int { // as a tree
		if a.Node != b.Node {
			return strings.Compare(a.Node, b.Node)
		}
		return slices.Compare(strings.Split(a.Resource, "/"), strings.Split(b.Resource, "/"))
	})
	w.at, w.last = now, seen
	return shown, err
}

// flow is what has gone through the buckets of a resource since the last look; nil at the first one. What was
// not seen then does not count: it may be what a server did not tell.
func (w *resourceWatch) flow(r *adminpb.Resource, seen map[bucketName]*adminpb.ResourceBucket,
	seconds float64) *flowShown {
	flow := new(flowShown)
	for _, b := range r.GetBuckets() {
		name := bucketName{r.GetPath(), r.GetId(), b.GetServer()}
		seen[name] = b
		if last := w.last[name]; last != nil && seconds > 0 {
			flow.Assigned += max(0, b.GetAssigned()-last.GetAssigned()) / seconds
			flow.Granted += max(0, b.GetGranted()-last.GetGranted()) / seconds
			flow.Used += max(0, b.GetUsed()-last.GetUsed()) / seconds
		}
	}
	if w.last == nil {
		return nil
	}
	return flow
}

func (s *resourcesShown) text(w io.Writer) {
	more := ""
	if !s.Whole {
		more = fmt.Sprintf(", of the first %d resources only: there are more", resourcesMost)
	}
	fmt.Fprintf(w, "%s%s\n", s.Time, more)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tRESOURCE\tRATE\tAVAILABLE\tGRANTED/S\tUSED/S\tASSIGNED/S\tWAITERS\tWANTED")
	for _, r := range s.Resources {
		granted, used, assigned := "-", "-", "-"
		if r.Flow != nil {
			granted, used, assigned = units(r.Flow.Granted), units(r.Flow.Used), units(r.Flow.Assigned)
		}
		rate := math.NaN()
		if r.Rate.Effective != nil {
			rate = *r.Rate.Effective
		}
		depth := strings.Count(r.Resource, "/")
		_ = printRow(table, r.Node, strings.Repeat("  ", depth)+r.Resource[strings.LastIndexByte(r.Resource, '/')+1:],
			units(rate), r.available(), granted, used, assigned, fmt.Sprint(r.All.Waiters), units(r.All.Waiting))
	}
	table.Flush()
	for _, unknown := range s.Unknown {
		_ = printLine(w, "not told: %s", unknown)
	}
}
