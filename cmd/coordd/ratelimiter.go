package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
)

func rateLimiterCommand(env *cmdline.Env) *cobra.Command {
	parent := &cobra.Command{
		Use:     "ratelimiter",
		Aliases: []string{"rl"},
		Short:   "Create, inspect, change, drop and acquire rate limiter resources",
		RunE:    cmdline.WantsCommand,
	}
	parent.AddCommand(resourceCreateCommand(env), resourceAlterCommand(env), resourceDropCommand(env),
		resourceDescribeCommand(env), resourceListCommand(env), resourceAcquireCommand(env))
	return parent
}

// checkResource sees to what is no path of a resource on any server.
func checkResource(path string) error {
	if !serve.IsResource(path) {
		return exit.Usagef("argument RESOURCE: value %q is not allowed: want elements with one / between them, such "+
			"as reports or reports/daily", path)
	}
	return nil
}

// aboutResource is an error of a call that names a resource.
func (c *caller) aboutResource(node, resource string, err error) error {
	var refused *protocol.Refused
	switch {
	case errors.As(err, &refused) && refused.Text == "" && refused.Status == Ydb.StatusIds_BAD_REQUEST:
		return exit.With(exit.NotFound, fmt.Errorf("%s has no resource %q, or is no coordination node; "+
			"`coordd ratelimiter create %s %s --rate UNITS` makes one", c.path(node), resource, node, resource))
	case errors.As(err, &refused) && refused.Status == Ydb.StatusIds_SCHEME_ERROR:
		return c.aboutPath(node, err)
	}
	if plain := c.plain(err); exit.Of(plain) != exit.Failure {
		return plain
	}
	return fmt.Errorf("%s %q: %w", c.path(node), resource, c.plain(err))
}

// resourceFlags are the settings of a resource.
type resourceFlags struct{ rate, prefetch, watermark, burst float64 }

func (f *resourceFlags) declare(flags *pflag.FlagSet) {
	flags.Float64Var(&f.rate, "rate", 0,
		"units that it hands out in a second; 0: as many as what is above it")
	flags.Float64Var(&f.prefetch, "prefetch", 0,
		"how many seconds of the rate a full bucket holds; negative: none; 0: as above it, 0.2 where nothing is")
	flags.Float64Var(&f.watermark, "watermark", 0,
		"share of a full bucket below which it is filled up again, 0 to 1; 0: as above it, 0.75 where nothing is")
	flags.Float64Var(&f.burst, "burst", 0, "a number that is kept and shown and has no effect, as in YDB")
}

func (f *resourceFlags) check() error {
	for name, value := range map[string]float64{"rate": f.rate, "prefetch": f.prefetch,
		"watermark": f.watermark, "burst": f.burst} {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return exit.Usagef("flag --%s: value \"%g\" is not allowed: want a finite number", name, value)
		}
	}
	switch {
	case f.rate < 0:
		return exit.Usagef("flag --rate: value \"%g\" is not allowed: want 0 or more units in a second",
			f.rate)
	case f.watermark < 0 || f.watermark > 1:
		return exit.Usagef("flag --watermark: value \"%g\" is not allowed: want a number from 0 to 1",
			f.watermark)
	}
	return nil
}

func resourceCreateCommand(env *cmdline.Env) *cobra.Command {
	f := new(resourceFlags)
	command := askCommand(env, &question{use: "create NODE RESOURCE", short: "Create a rate limiter resource",
		long: "RESOURCE is a path: reports/daily is below reports, which must be there, and never faster\n" +
			"than that. One without a slash needs a --rate.",
		example: `  coordd node create app
  coordd ratelimiter create app reports --rate 100
  coordd rl create app reports/daily --rate 20 --prefetch 1`,
		check: func(_ *pflag.FlagSet, args []string) error {
			if err := checkResource(args[1]); err != nil {
				return err
			}
			if f.rate == 0 && !strings.Contains(args[1], "/") {
				return exit.Usagef("flag --rate: no value given; want how many units %q hands out in a second",
					args[1])
			}
			return f.check()
		},
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			resource := &Ydb_RateLimiter.Resource{ResourcePath: args[1],
				Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{
					HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{
						MaxUnitsPerSecond: f.rate, PrefetchCoefficient: f.prefetch,
						PrefetchWatermark:       f.watermark,
						MaxBurstSizeCoefficient: f.burst}}}
			err := c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_CreateResource_FullMethodName,
				&Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: c.path(args[0]), Resource: resource}, nil)
			if protocol.StatusOf(err) == Ydb.StatusIds_ALREADY_EXISTS {
				return fmt.Sprintf("%q exists already, with the same settings", args[1]), nil
			}
			return fmt.Sprintf("made %q", args[1]), c.aboutResource(args[0], args[1], err)
		}}, nil)
	f.declare(command.Flags())
	return command
}

// describeResource asks for a resource's own settings.
func (c *caller) describeResource(ctx context.Context, node, resource string) (*Ydb_RateLimiter.Resource, error) {
	result := new(Ydb_RateLimiter.DescribeResourceResult)
	err := c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_DescribeResource_FullMethodName,
		&Ydb_RateLimiter.DescribeResourceRequest{CoordinationNodePath: c.path(node), ResourcePath: resource}, result)
	return result.GetResource(), c.aboutResource(node, resource, err)
}

func resourceAlterCommand(env *cmdline.Env) *cobra.Command {
	f := new(resourceFlags)
	var changed func(name string) bool
	command := askCommand(env, &question{use: "alter NODE RESOURCE",
		short: "Change the settings of a rate limiter resource",
		long: "Settings whose flags are not given stay as they are; 0 unsets one. The change applies\n" +
			"at once, to everything below and to waiting clients. The protocol replaces all settings,\n" +
			"so this command reads them first: do not run two of them at a time.",
		example: `  coordd ratelimiter create app reports --rate 100
  coordd ratelimiter alter app reports --rate 50 --prefetch -1`,
		check: func(flags *pflag.FlagSet, args []string) error {
			if changed = flags.Changed; !slices.ContainsFunc([]string{"rate", "prefetch", "watermark",
				"burst"}, changed) {
				return exit.Usagef("no setting given: want one or more of --rate, --prefetch, --watermark, --burst")
			}
			return errors.Join(checkResource(args[1]), f.check())
		},
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			resource, err := c.describeResource(ctx, args[0], args[1])
			if err != nil {
				return "", err
			}
			settings := resource.GetHierarchicalDrr()
			if settings == nil {
				return "", fmt.Errorf("%q is of a kind that this program does not know", args[1])
			}
			for name, set := range map[string]func(){
				"rate":      func() { settings.MaxUnitsPerSecond = f.rate },
				"prefetch":  func() { settings.PrefetchCoefficient = f.prefetch },
				"watermark": func() { settings.PrefetchWatermark = f.watermark },
				"burst":     func() { settings.MaxBurstSizeCoefficient = f.burst },
			} {
				if changed(name) {
					set()
				}
			}
			return fmt.Sprintf("changed %q", args[1]), c.aboutResource(args[0], args[1],
				c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_AlterResource_FullMethodName,
					&Ydb_RateLimiter.AlterResourceRequest{CoordinationNodePath: c.path(args[0]), Resource: resource},
					nil))
		}}, nil)
	f.declare(command.Flags())
	return command
}

func resourceDropCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "drop NODE RESOURCE", short: "Drop a rate limiter resource",
		long: "Clients that wait for its units are notified. A resource with others below it is not dropped.",
		example: `  coordd ratelimiter create app old --rate 1
  coordd ratelimiter drop app old`,
		check: func(_ *pflag.FlagSet, args []string) error { return checkResource(args[1]) },
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			return fmt.Sprintf("dropped %q", args[1]), c.aboutResource(args[0], args[1],
				c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_DropResource_FullMethodName,
					&Ydb_RateLimiter.DropResourceRequest{CoordinationNodePath: c.path(args[0]), ResourcePath: args[1]},
					nil))
		}}, nil)
}

// late is how much later than the end of a wait its answer may come.
const late = 2 * time.Second

func resourceAcquireCommand(env *cmdline.Env) *cobra.Command {
	var used, nonBlocking bool
	var amount uint64
	command := askCommand(env, &question{use: "acquire NODE RESOURCE [AMOUNT]",
		short: "Acquire units of a rate limiter, or report them as used",
		long: "AMOUNT is 1 if it is not given. If there is not enough it waits in a queue, up to\n" +
			"--timeout. Units that do not come in time are not taken, and the exit code is 124.\n" +
			"With --used the units are taken at once, as a debt where there are not as many.",
		example: `  coordd ratelimiter create app reports --rate 100
  coordd ratelimiter acquire app reports --timeout 5s && echo "work"
  coordd ratelimiter acquire app reports 25 --used`,
		late: late,
		check: func(flags *pflag.FlagSet, args []string) (err error) {
			amount = 1
			if len(args) > 2 {
				if amount, err = strconv.ParseUint(args[2], 10, 64); err != nil {
					return exit.Usagef("argument AMOUNT: value %q is not allowed: want a number from 0 to "+
						"18446744073709551615", args[2])
				}
			}
			switch {
			case used && (nonBlocking || flags.Changed("timeout")):
				return exit.Usagef("flag --used: has no meaning with --nonblock or --timeout: it never waits")
			case nonBlocking && flags.Changed("timeout"):
				return exit.Usagef("flags --nonblock and --timeout: give one of them")
			}
			return checkResource(args[1])
		},
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			request := &Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: c.path(args[0]),
				ResourcePath: args[1], OperationParams: new(Ydb_Operations.OperationParams),
				Units: &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: amount}}
			wait := time.Duration(0)
			if deadline, _ := ctx.Deadline(); !nonBlocking {
				wait = max(time.Until(deadline)-late, 0)
				request.OperationParams.OperationTimeout = durationpb.New(wait)
			}
			if used {
				request.Units = &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: amount}
			}
			err := c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_AcquireResource_FullMethodName, request, nil)
			if status := protocol.StatusOf(err); status == Ydb.StatusIds_TIMEOUT || status == Ydb.StatusIds_CANCELLED {
				return "", exit.With(exit.Conflict, fmt.Errorf("%q: there are not %s to be had now; nothing was taken",
					args[1], counted(amount, "unit")))
			}
			done := fmt.Sprintf("took %s of %q", counted(amount, "unit"), args[1])
			if used {
				done += ", used before"
			}
			return done, c.aboutResource(args[0], args[1], err)
		}}, nil)
	command.Flags().BoolVar(&used, "used", false, "they were used already: take them whatever there is")
	command.Flags().BoolVarP(&nonBlocking, "nonblock", "n", false, "do not wait")
	return command
}

// resourceShown is a resource, as the output has it.
type resourceShown struct {
	Node      string         `json:"node"`
	Resource  string         `json:"resource"`
	Rate      numberShown    `json:"max_units_per_second"`
	Prefetch  numberShown    `json:"prefetch_coefficient"`
	Watermark numberShown    `json:"prefetch_watermark"`
	Burst     *float64       `json:"max_burst_size_coefficient"` // nil: it is no finite number
	Buckets   []*bucketShown `json:"buckets"`                    // nil where they are not told
	Unknown   []string       `json:"buckets_unknown"`
}

// numberShown is a number that was set, 0 if none was, and what it comes to, nil where that is not told.
type numberShown struct {
	Set       float64  `json:"set"`
	Effective *float64 `json:"effective"`
}

// bucketShown is what a server has of a resource, or what all together have.
type bucketShown struct {
	Server   string  `json:"server,omitempty"`
	Level    float64 `json:"level"`
	Capacity float64 `json:"capacity"`
	Waiters  uint64  `json:"waiters"`
	Waiting  float64 `json:"waiting"`
	Asks     bool    `json:"asks"`
	Assigned float64 `json:"assigned"`
	Granted  float64 `json:"granted"`
	Used     float64 `json:"used"`
}

func showBucket(b *adminpb.ResourceBucket) *bucketShown {
	return &bucketShown{b.GetServer(), b.GetLevel(), b.GetCapacity(), b.GetWaiters(), b.GetWaiting(),
		b.GetAsks(), b.GetAssigned(), b.GetGranted(), b.GetUsed()}
}

// together adds up what servers have.
func together(buckets []*adminpb.ResourceBucket) *bucketShown {
	sum := new(bucketShown)
	for _, b := range buckets {
		sum.Level += b.GetLevel()
		sum.Capacity += b.GetCapacity()
		sum.Waiters += b.GetWaiters()
		sum.Waiting += b.GetWaiting()
		sum.Asks = sum.Asks || b.GetAsks()
		sum.Assigned += b.GetAssigned()
		sum.Granted += b.GetGranted()
		sum.Used += b.GetUsed()
	}
	return sum
}

func finite(value float64) *float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	return &value
}

func showResource(node string, r *Ydb_RateLimiter.Resource) *resourceShown {
	s := r.GetHierarchicalDrr()
	return &resourceShown{Node: node, Resource: r.GetResourcePath(),
		Rate:      numberShown{Set: s.GetMaxUnitsPerSecond()},
		Prefetch:  numberShown{Set: s.GetPrefetchCoefficient()},
		Watermark: numberShown{Set: s.GetPrefetchWatermark()}, Burst: finite(s.GetMaxBurstSizeCoefficient())}
}

// units are a number of units for people.
func units(n float64) string {
	if math.Abs(n) < 1e15 {
		return strconv.FormatFloat(math.Round(n*10)/10+0, 'f', -1, 64)
	}
	return strconv.FormatFloat(n, 'g', 4, 64)
}

func (r *resourceShown) text(w io.Writer) {
	number := func(n numberShown, unset string) string {
		switch {
		case n.Effective != nil && n.Set == 0:
			return fmt.Sprintf("%g, not set", *n.Effective)
		case n.Effective != nil && *n.Effective != n.Set:
			return fmt.Sprintf("%g, set to %g", *n.Effective, n.Set)
		case n.Set == 0:
			return unset
		}
		return fmt.Sprintf("%g", n.Set)
	}
	fmt.Fprintf(w, "%s %q\n  units per second   %s\n", r.Node, r.Resource, number(r.Rate, "as above it"))
	fmt.Fprintf(w, "  prefetch           %s\n  watermark          %s\n", number(r.Prefetch, "not set"),
		number(r.Watermark, "not set"))
	if r.Burst == nil || *r.Burst != 0 {
		burst := "not a number"
		if r.Burst != nil {
			burst = fmt.Sprint(*r.Burst)
		}
		fmt.Fprintf(w, "  burst              %s, without effect\n", burst)
	}
	for _, b := range r.Buckets {
		waiters := ""
		if b.Waiters > 0 {
			waiters = fmt.Sprintf(", %s for %s", counted(b.Waiters, "waiter"), units(b.Waiting))
		}
		_ = cmdline.PrintLine(w, "  bucket of %s  %s of %s, assigned %s, granted %s, used %s%s", b.Server,
			units(b.Level),
			units(b.Capacity), units(b.Assigned), units(b.Granted), units(b.Used), waiters)
	}
	for _, unknown := range r.Unknown {
		_ = cmdline.PrintLine(w, "  not told: %s", unknown)
	}
}

// withBuckets adds what only coordd servers tell, if they do.
func (r *resourceShown) withBuckets(of *adminpb.Resource, unknown []string) {
	e := of.GetEffective()
	r.Rate.Effective, r.Prefetch.Effective, r.Watermark.Effective = finite(e.GetMaxUnitsPerSecond()),
		finite(e.GetPrefetchCoefficient()), finite(e.GetPrefetchWatermark())
	r.Buckets, r.Unknown = []*bucketShown{}, append([]string{}, unknown...)
	for _, b := range of.GetBuckets() {
		r.Buckets = append(r.Buckets, showBucket(b))
	}
}

func resourceDescribeCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "describe NODE RESOURCE",
		short: "Show a rate limiter resource, and its buckets on the servers",
		long: "Any server of the protocol reports a resource's own settings. A coordd server also reports\n" +
			"the effective ones, and for each server the bucket and the units taken from it since the\n" +
			"first acquire there.",
		example: `  coordd ratelimiter create app reports --rate 100
  coordd ratelimiter describe app reports
  coordd ratelimiter describe app reports -o json`,
		check: func(_ *pflag.FlagSet, args []string) error { return checkResource(args[1]) },
		run: func(ctx context.Context, c *caller, args []string) error {
			resource, err := c.describeResource(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			shown := showResource(c.path(args[0]), resource)
			page, err := c.page(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_RESOURCES, Path: shown.Node,
				Resource: args[1]})
			if err != nil && !isNotOurs(err) {
				return err
			}
			if len(page.GetResources()) > 0 && page.GetResources()[0].GetResource() == args[1] {
				shown.withBuckets(page.GetResources()[0], page.GetUnknown())
			}
			return out.one(env.Stdout, shown, shown.text)
		}}, out)
}

// resourceRow is a resource of a list.
type resourceRow struct {
	Node     string       `json:"node"`
	Resource string       `json:"resource"`
	Rate     numberShown  `json:"max_units_per_second"`
	Servers  int          `json:"servers"`  // on which it was acquired
	All      *bucketShown `json:"together"` // nil where the server does not tell
}

func (r *resourceRow) cells() []string {
	rate := r.Rate.Set
	if r.Rate.Effective != nil {
		rate = *r.Rate.Effective
	}
	cells := []string{r.Node, r.Resource, units(rate)}
	if r.All == nil {
		if rate == 0 {
			cells[2] = "as above"
		}
		return append(cells, "?", "?", "?", "?")
	}
	return append(cells, r.available(), units(r.All.Granted), units(r.All.Used), fmt.Sprint(r.All.Waiters))
}

// available is what the buckets of the resource have.
func (r *resourceRow) available() string {
	if r.Servers == 0 {
		return "-"
	}
	return units(r.All.Level) + " of " + units(r.All.Capacity)
}

// publicResources is the paths of the resources of a node as any server tells them.
func (c *caller) publicResources(ctx context.Context, node, resource string) ([]string, error) {
	result := new(Ydb_RateLimiter.ListResourcesResult)
	err := c.Call(ctx, Ydb_RateLimiter_V1.RateLimiterService_ListResources_FullMethodName,
		&Ydb_RateLimiter.ListResourcesRequest{CoordinationNodePath: node, ResourcePath: resource,
			Recursive: true}, result)
	if err != nil {
		return nil, c.aboutResource(node, resource, err)
	}
	slices.Sort(result.GetResourcePaths())
	return result.GetResourcePaths(), nil
}

func rowOf(r *adminpb.Resource) *resourceRow {
	return &resourceRow{Node: r.GetPath(), Resource: r.GetResource(),
		Rate: numberShown{r.GetSet().GetMaxUnitsPerSecond(),
			finite(r.GetEffective().GetMaxUnitsPerSecond())},
		Servers: len(r.GetBuckets()),
		All:     together(r.GetBuckets())}
}

func resourceListCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "ls [NODE] [RESOURCE]",
		short: "List the rate limiter resources of a coordination node, or of all below a path",
		long: "With RESOURCE only that and what is below it. A YDB does not tell what has gone through\n" +
			"them. A listing is not a snapshot.",
		example: "  coordd ratelimiter ls\n  coordd ratelimiter create app reports --rate 10\n" +
			"  coordd rl ls app reports -o json",
		run: func(ctx context.Context, c *caller, args []string) error {
			resource := ""
			if len(args) > 1 {
				resource = args[1]
			}
			rows := out.list(env.Stdout, "NODE", "RESOURCE", "RATE", "AVAILABLE", "GRANTED", "USED", "WAITERS")
			err := c.pages(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_RESOURCES, Path: pathOr(c, args, ""),
				Resource: resource},
				func(page *adminpb.Page) error {
					return each(page.GetResources(), func(r *adminpb.Resource) error {
						row := rowOf(r)
						return rows.add(row, row.cells()...)
					})
				})
			if isNotOurs(err) {
				err = c.listPublicResources(ctx, args, resource, rows)
			}
			return endList(env, rows, "resources", err)
		}}, out)
}

// listPublicResources lists what any server tells.
func (c *caller) listPublicResources(ctx context.Context, args []string, resource string, rows *listing) error {
	of := func(node string) error {
		paths, err := c.publicResources(ctx, node, resource)
		if err != nil {
			return err
		}
		return each(paths, func(path string) error {
			r, err := c.describeResource(ctx, node, path)
			if err != nil {
				return err
			}
			row := &resourceRow{Node: node, Resource: path,
				Rate: numberShown{Set: r.GetHierarchicalDrr().GetMaxUnitsPerSecond()}}
			return rows.add(row, row.cells()...)
		})
	}
	if len(args) > 0 {
		return of(c.path(args[0]))
	}
	return c.walk(ctx, c.database, 0, func(path string, _ int, entry *Ydb_Scheme.Entry) error {
		if entry.GetType() != Ydb_Scheme.Entry_COORDINATION_NODE {
			return nil
		}
		return of(path)
	})
}

// completeResources offers the resources of a node.
func (c *caller) completeResources(ctx context.Context, node string, add func(word, about string) bool) {
	paths, _ := c.publicResources(ctx, node, "")
	for _, path := range paths {
		if !add(path, "resource") {
			return
		}
	}
}
