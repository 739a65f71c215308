package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
)

func nodeCommand(env *cmdline.Env) *cobra.Command {
	parent := &cobra.Command{
		Use:   "node",
		Short: "Create, inspect, change and drop coordination nodes",
		RunE:  cmdline.WantsCommand,
	}
	parent.AddCommand(nodeCreateCommand(env), nodeAlterCommand(env), nodeShowCommand(env), nodeDropCommand(env),
		nodeListCommand(env), nodeTreeCommand(env), nodeQuotaCommand(env))
	return parent
}

// nodeFlags are the settings of a node.
type nodeFlags struct {
	selfCheck, grace       time.Duration
	read, attach, counters string
	history                string
}

func (f *nodeFlags) declare(flags *pflag.FlagSet) {
	flags.DurationVar(&f.selfCheck, "self-check-period", 0,
		"how often its leader makes sure that it leads; 500ms to 10s count (default: 1s)")
	flags.DurationVar(&f.grace, "session-grace-period", 0,
		"what sessions get on top of their timeouts after a change of the leader; up to 30s count (default: 10s)")
	flags.StringVar(&f.read, "read-consistency", "", "strict or relaxed (default: relaxed)")
	flags.StringVar(&f.attach, "attach-consistency", "", "strict or relaxed (default: strict)")
	flags.StringVar(&f.counters, "rate-limiter-counters", "", "aggregated or detailed (default: aggregated)")
	flags.StringVar(&f.history, "history", "",
		"what 'config history' has of former versions: none, meta or data; needs a coordd server (default: meta)")
}

func (f *nodeFlags) check(flags *pflag.FlagSet) error {
	for name, value := range map[string]time.Duration{"self-check-period": f.selfCheck,
		"session-grace-period": f.grace} {
		if flags.Changed(name) && (value < time.Millisecond || value.Milliseconds() > math.MaxUint32) {
			return exit.Usagef("flag --%s: value %q is not allowed: want a time from 1ms to %s, such as 10s",
				name, value, serve.DurationText(math.MaxUint32*time.Millisecond))
		}
	}
	for name, value := range map[string]string{"read-consistency": f.read, "attach-consistency": f.attach} {
		if value != "" && consistencyOf(value) == 0 {
			return exit.Usagef("flag --%s: value %q is not allowed: want strict or relaxed", name, value)
		}
	}
	if _, known := histories[f.history]; f.history != "" && !known {
		return exit.Usagef("flag --history: value %q is not allowed: want none, meta or data", f.history)
	}
	if f.counters != "" && countersOf(f.counters) == 0 {
		return exit.Usagef(
			"flag --rate-limiter-counters: value %q is not allowed: want aggregated or detailed", f.counters)
	}
	return nil
}

func consistencyOf(word string) Ydb_Coordination.ConsistencyMode {
	return map[string]Ydb_Coordination.ConsistencyMode{
		"strict":  Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_STRICT,
		"relaxed": Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_RELAXED}[word]
}

func countersOf(word string) Ydb_Coordination.RateLimiterCountersMode {
	return map[string]Ydb_Coordination.RateLimiterCountersMode{
		"aggregated": Ydb_Coordination.RateLimiterCountersMode_RATE_LIMITER_COUNTERS_MODE_AGGREGATED,
		"detailed":   Ydb_Coordination.RateLimiterCountersMode_RATE_LIMITER_COUNTERS_MODE_DETAILED}[word]
}

func (f *nodeFlags) config() *Ydb_Coordination.Config {
	return &Ydb_Coordination.Config{SelfCheckPeriodMillis: uint32(f.selfCheck.Milliseconds()),
		SessionGracePeriodMillis: uint32(f.grace.Milliseconds()), ReadConsistencyMode: consistencyOf(f.read),
		AttachConsistencyMode: consistencyOf(f.attach), RateLimiterCountersMode: countersOf(f.counters)}
}

// histories are the words for what servers remember of former data.
var histories = map[string]adminpb.History{"meta": adminpb.History_META, "none": adminpb.History_NONE,
	"data": adminpb.History_DATA}

// setHistory sets what servers remember of a node's former data, unless the word is empty.
func (c *caller) setHistory(ctx context.Context, node, word string) error {
	if word == "" {
		return nil
	}
	return c.inspect(ctx, adminpb.Inspect_SetHistory_FullMethodName, &adminpb.SetHistoryRequest{Path: c.path(node),
		History: histories[word]}, new(adminpb.SetHistoryResponse))
}

// historyWord returns the word for a history.
func historyWord(h adminpb.History) string {
	for word, known := range histories {
		if known == h {
			return word
		}
	}
	return ""
}

// makeNode makes a node, unless it is there already.
func (c *caller) makeNode(ctx context.Context, path string, config *Ydb_Coordination.Config) (made bool, err error) {
	answer, err := c.Operate(ctx, Ydb_Coordination_V1.CoordinationService_CreateNode_FullMethodName,
		&Ydb_Coordination.CreateNodeRequest{Path: c.path(path), Config: config})
	if err == nil {
		err = protocol.Answered(answer.GetStatus(), answer.GetIssues())
	}
	return len(answer.GetIssues()) == 0, c.aboutPath(path, err)
}

func (c *caller) alterNode(ctx context.Context, path string, config *Ydb_Coordination.Config) error {
	return c.aboutPath(path, c.Call(ctx, Ydb_Coordination_V1.CoordinationService_AlterNode_FullMethodName,
		&Ydb_Coordination.AlterNodeRequest{Path: c.path(path), Config: config}, nil))
}

func (c *caller) dropNode(ctx context.Context, path string) error {
	return c.aboutPath(path, c.Call(ctx, Ydb_Coordination_V1.CoordinationService_DropNode_FullMethodName,
		&Ydb_Coordination.DropNodeRequest{Path: c.path(path)}, nil))
}

func nodeCreateCommand(env *cmdline.Env) *cobra.Command {
	f := new(nodeFlags)
	command := askCommand(env, &question{use: "create NODE",
		short: "Create a coordination node, and missing directories above it",
		long:  "A node that exists stays as it is; 'coordd node alter' changes it.",
		example: `  coordd node create app
  coordd node create /local/services/billing --session-grace-period 5s`,
		check: func(flags *pflag.FlagSet, _ []string) error { return f.check(flags) },
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			made, err := c.makeNode(ctx, args[0], f.config())
			if !made || err != nil {
				return c.path(args[0]) + " exists already, and was left as it is", err
			}
			return "made " + c.path(args[0]), c.setHistory(ctx, args[0], f.history)
		}}, nil)
	f.declare(command.Flags())
	return command
}

func nodeAlterCommand(env *cmdline.Env) *cobra.Command {
	f := new(nodeFlags)
	command := askCommand(env, &question{use: "alter NODE", short: "Change the settings of a coordination node",
		long: "Settings whose flags are not given stay as they are. A grace period counts from the next change " +
			"of the leader on.",
		example: `  coordd node alter app --session-grace-period 5s --read-consistency strict`,
		check: func(flags *pflag.FlagSet, _ []string) error {
			if *f == (nodeFlags{}) {
				return exit.Usagef("no setting given: want one or more of --self-check-period, " +
					"--session-grace-period, --read-consistency, --attach-consistency, --rate-limiter-counters, " +
					"--history")
			}
			return f.check(flags)
		},
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			if err := c.alterNode(ctx, args[0], f.config()); err != nil {
				return "", err
			}
			return "changed " + c.path(args[0]), c.setHistory(ctx, args[0], f.history)
		}}, nil)
	f.declare(command.Flags())
	return command
}

func nodeDropCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "drop NODE",
		short: "Drop a coordination node, with all sessions and semaphores in it",
		example: `  coordd node create short-lived
  coordd node drop short-lived`,
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			return "dropped " + c.path(args[0]), c.dropNode(ctx, args[0])
		}}, nil)
}

// nodeShown is a node with its settings, as the output has it.
type nodeShown struct {
	Path        string        `json:"path"`
	Owner       string        `json:"owner"`
	Created     *string       `json:"created"`
	SelfCheck   settingShown  `json:"self_check_period_millis"`
	Grace       settingShown  `json:"session_grace_period_millis"`
	Read        string        `json:"read_consistency"`
	Attach      string        `json:"attach_consistency"`
	Counters    string        `json:"rate_limiter_counters"`
	History     *string       `json:"history"` // nil where the server does not tell
	Permissions []rightsShown `json:"permissions"`
	Effective   []rightsShown `json:"effective_permissions"`
}

// settingShown is a number that was set, 0 if none was, and what it comes to.
type settingShown struct {
	Set       uint32 `json:"set"`
	Effective uint32 `json:"effective"`
}

type rightsShown struct {
	Subject     string   `json:"subject"`
	Permissions []string `json:"permissions"`
}

func rightsOf(permissions []*Ydb_Scheme.Permissions) []rightsShown {
	shown := []rightsShown{}
	for _, entry := range permissions {
		shown = append(shown, rightsShown{entry.GetSubject(),
			append([]string{}, entry.GetPermissionNames()...)})
	}
	return shown
}

// The rules of the protocol for what settings come to.
const (
	selfCheckDefault, selfCheckLeast, selfCheckMost = 1000, 500, 10000
	graceDefault, graceMost, graceAbove             = 10000, 30000, 1000
)

func showNode(path string, result *Ydb_Coordination.DescribeNodeResult) *nodeShown {
	self, config := result.GetSelf(), result.GetConfig()
	n := &nodeShown{Path: path, Owner: self.GetOwner(), Created: timeShown(self.GetCreatedAt().GetPlanStep()),
		Read: "relaxed", Attach: "strict", Counters: "aggregated",
		Permissions: rightsOf(self.GetPermissions()), Effective: rightsOf(self.GetEffectivePermissions())}
	n.SelfCheck.Set, n.Grace.Set = config.GetSelfCheckPeriodMillis(), config.GetSessionGracePeriodMillis()
	n.SelfCheck.Effective = min(max(cmp.Or(n.SelfCheck.Set, selfCheckDefault), selfCheckLeast), selfCheckMost)
	n.Grace.Effective = max(min(cmp.Or(n.Grace.Set, graceDefault), graceMost),
		n.SelfCheck.Effective+graceAbove)
	if config.GetReadConsistencyMode() == Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_STRICT {
		n.Read = "strict"
	}
	if mode := config.GetAttachConsistencyMode(); mode != Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_STRICT &&
		mode != 0 {
		n.Attach = "relaxed"
	}
	if config.GetRateLimiterCountersMode() == countersOf("detailed") {
		n.Counters = "detailed"
	}
	return n
}

func (n *nodeShown) text(w io.Writer) {
	created := "unknown"
	if n.Created != nil {
		created = *n.Created
	}
	setting := func(s settingShown) string {
		text := millisText(uint64(s.Effective))
		switch s.Set {
		case s.Effective:
		case 0:
			text += ", the default"
		default:
			text += ", set to " + millisText(uint64(s.Set))
		}
		return text
	}
	fmt.Fprintf(w,
		"%s\n  owner                  %s\n  created                %s\n  self-check period      %s\n"+
			"  session grace period   %s\n", n.Path, quotedName(n.Owner), created, setting(n.SelfCheck),
		setting(n.Grace))
	fmt.Fprintf(w, "  read consistency       %s\n  attach consistency     %s\n  rate limiter counters  %s\n",
		n.Read, n.Attach, n.Counters)
	if n.History != nil {
		fmt.Fprintf(w, "  history                %s\n", *n.History)
	}
	for _, entry := range n.Effective {
		_ = cmdline.PrintLine(w, "  permissions of         %s: %s", quotedName(entry.Subject),
			strings.Join(entry.Permissions, ", "))
	}
}

// quotedName is a name that somebody has chosen, with nobody for none.
func quotedName(name string) string {
	if name == "" {
		return "nobody"
	}
	return fmt.Sprintf("%q", name)
}

func nodeShowCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "show NODE",
		short:   "Show the settings of a coordination node, and the values in effect",
		example: "  coordd node show app\n  coordd node show app -o json",
		run: func(ctx context.Context, c *caller, args []string) error {
			result := new(Ydb_Coordination.DescribeNodeResult)
			if err := c.Call(ctx, Ydb_Coordination_V1.CoordinationService_DescribeNode_FullMethodName,
				&Ydb_Coordination.DescribeNodeRequest{Path: c.path(args[0])}, result); err != nil {
				return c.aboutPath(args[0], err)
			}
			n := showNode(c.path(args[0]), result)
			if err := c.listNodes(ctx, n.Path, func(listed *adminpb.Node) error {
				n.History = new(historyWord(listed.GetHistory()))
				return nil
			}); err != nil && !isNotOurs(err) && exit.Of(err) != exit.NotFound { // the rows may be hidden
				return err
			}
			return out.one(env.Stdout, n, n.text)
		}}, out)
}

// nodeRow is a node of a list.
type nodeRow struct {
	Path       string  `json:"path"`
	Sessions   *uint64 `json:"sessions"` // nil where the server does not tell
	Semaphores *uint64 `json:"semaphores"`
	Owner      string  `json:"owner"`
	Created    *string `json:"created"`
}

func (n *nodeRow) cells() []string {
	number := func(value *uint64) string {
		if value == nil {
			return "?"
		}
		return fmt.Sprint(*value)
	}
	created := "unknown"
	if n.Created != nil {
		created = *n.Created
	}
	return []string{n.Path, number(n.Sessions), number(n.Semaphores), quotedName(n.Owner), created}
}

func nodeListCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "ls [PATH]", short: "List the coordination nodes below a path, at any depth",
		long:    "A YDB does not tell how many sessions and semaphores they have. A listing is not a snapshot.",
		example: "  coordd node ls\n  coordd node ls /local -o jsonl",
		run: func(ctx context.Context, c *caller, args []string) error {
			rows := out.list(env.Stdout, "PATH", "SESSIONS", "SEMAPHORES", "OWNER", "CREATED")
			err := c.listNodes(ctx, pathOr(c, args, ""), func(n *adminpb.Node) error {
				row := &nodeRow{n.GetPath(), &n.Sessions, &n.Semaphores, n.GetOwner(), timeShown(n.GetCreatedMillis())}
				return rows.add(row, row.cells()...)
			})
			if isNotOurs(err) {
				err = c.walk(ctx, pathOr(c, args, c.database), 0,
					func(path string, _ int, entry *Ydb_Scheme.Entry) error {
						if entry.GetType() != Ydb_Scheme.Entry_COORDINATION_NODE {
							return nil
						}
						row := &nodeRow{Path: path, Owner: entry.GetOwner(),
							Created: timeShown(entry.GetCreatedAt().GetPlanStep())}
						return rows.add(row, row.cells()...)
					})
			}
			return endList(env, rows, "coordination nodes", err)
		}}, out)
}

// endList ends a list, and says beside it that there is nothing on it.
func endList(env *cmdline.Env, rows *listing, what string, err error) error {
	if err != nil {
		return err
	}
	if rows.rows == 0 {
		fmt.Fprintln(env.Stderr, "no "+what)
	}
	return rows.end()
}

// pathOr is the path of the first argument, or else another one.
func pathOr(c *caller, args []string, fallback string) string {
	if len(args) == 0 {
		return fallback
	}
	return c.path(args[0])
}

// listNodes calls show for each node below a path.
func (c *caller) listNodes(ctx context.Context, path string, show func(*adminpb.Node) error) error {
	return c.pages(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_NODES, Path: path},
		func(page *adminpb.Page) error { return each(page.GetNodes(), show) })
}

// depthMost bounds how deep a tree is looked into.
const depthMost = 64

// walk calls tell for everything below a path, a directory before what is in it.
func (c *caller) walk(ctx context.Context, path string, depth int,
	tell func(path string, depth int, entry *Ydb_Scheme.Entry) error) error {
	result := new(Ydb_Scheme.ListDirectoryResult)
	if err := c.Call(ctx, Ydb_Scheme_V1.SchemeService_ListDirectory_FullMethodName,
		&Ydb_Scheme.ListDirectoryRequest{Path: path}, result); err != nil {
		return c.aboutPath(path, err)
	}
	children := result.GetChildren()
	slices.SortFunc(children, func(a, b *Ydb_Scheme.Entry) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	for _, child := range children {
		below := strings.TrimSuffix(path, "/") + "/" + child.GetName()
		if err := tell(below, depth, child); err != nil {
			return err
		}
		if child.GetType() == Ydb_Scheme.Entry_DIRECTORY && depth < depthMost {
			if err := c.walk(ctx, below, depth+1, tell); err != nil {
				return err
			}
		}
	}
	return nil
}

func nodeTreeCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "tree [PATH]",
		short: "Show the directories and coordination nodes below a path", example: "  coordd node tree",
		run: func(ctx context.Context, c *caller, args []string) error {
			path := pathOr(c, args, c.database)
			fmt.Fprintln(env.Stdout, path)
			return c.walk(ctx, path, 1, func(_ string, depth int, entry *Ydb_Scheme.Entry) error {
				_, err := fmt.Fprintf(env.Stdout, "%s%s\n", strings.Repeat("  ", depth), nameText(entry))
				return err
			})
		}}, nil)
}

// nameText is the name of something in the tree, with a slash behind that of a directory.
func nameText(entry *Ydb_Scheme.Entry) string {
	switch entry.GetType() {
	case Ydb_Scheme.Entry_DIRECTORY:
		return cmdline.OneLine(entry.GetName()) + "/"
	case Ydb_Scheme.Entry_COORDINATION_NODE:
		return cmdline.OneLine(entry.GetName())
	default:
		return fmt.Sprintf("%s (%s)", cmdline.OneLine(entry.GetName()), strings.ToLower(entry.GetType().String()))
	}
}
