package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"go.yaml.in/yaml/v3"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/server/adminpb"
)

// exchangeTimeout bounds an export or an import, unless --timeout says otherwise.
const exchangeTimeout = time.Hour

// importMost bounds what an import reads, all of which is in memory.
const importMost = 64 << 20

const exportText = `Each node comes with its settings, as far as they were set, and with its semaphores that stay,
their limits and data: configuration is among them. Sessions, what they hold, semaphores that
go with their last owner, permissions and users are not exported: 'coordd cluster snapshot'
has everything. What changes meanwhile may be there as it was or as it is. A node below the
database is named without it, so that the import may be into another one.`

const importText = `Nodes are made with their settings, and semaphores with limits and data. What is there
already is left as it is, or with --replace gets the settings and the data: limits cannot be
changed. All of the file is looked at before anything is done. If it fails on the way it can
be done again.`

// exportedNode is a node as files have it.
type exportedNode struct {
	Node       string              `yaml:"node"`
	SelfCheck  uint32              `yaml:"self_check_period_millis,omitempty"`
	Grace      uint32              `yaml:"session_grace_period_millis,omitempty"`
	Read       string              `yaml:"read_consistency,omitempty"`
	Attach     string              `yaml:"attach_consistency,omitempty"`
	Counters   string              `yaml:"rate_limiter_counters,omitempty"`
	History    string              `yaml:"history,omitempty"`
	Semaphores []exportedSemaphore `yaml:"semaphores,omitempty"` // an export writes them one after the other
}

type exportedSemaphore struct {
	Name   *string `yaml:"name"`
	Limit  uint64  `yaml:"limit"`
	Data   *string `yaml:"data,omitempty"`
	Base64 *string `yaml:"data_base64,omitempty"`
}

// wordOf is the word of a setting, empty if it was not set.
func wordOf[T ~int32](value T, of func(string) T, words ...string) string {
	for _, word := range words {
		if value != 0 && of(word) == value {
			return word
		}
	}
	return ""
}

func exportCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "export [PATH]", timeout: exchangeTimeout,
		short: "Write coordination nodes and their configuration as YAML",
		long:  exportText + "\n\n" + oursText, example: "  coordd export > nodes.yaml\n  coordd export app",
		run: func(ctx context.Context, c *caller, args []string) error {
			e := &export{caller: c, to: env.Stdout}
			var nodes []*adminpb.Node
			if err := c.listNodes(ctx, pathOr(c, args, ""), func(n *adminpb.Node) error {
				nodes = append(nodes, n)
				return nil
			}); err != nil {
				return err
			}
			progress := progressOf(env)
			defer progress.End()
			for i, n := range nodes {
				progress.Show("exporting", "nodes", uint64(i), uint64(len(nodes)))
				// one that is missing was dropped meanwhile
				if err := e.node(ctx, n.GetPath(), n.GetHistory()); err != nil && !isMissing(err) {
					return err
				}
			}
			if e.nodes == 0 {
				fmt.Fprintln(env.Stderr, "no coordination nodes")
				fmt.Fprintln(env.Stdout, "[]")
			}
			return nil
		}}, nil)
}

// export writes nodes, one semaphore at a time.
type export struct {
	caller *caller
	to     io.Writer
	nodes  int
}

func (e *export) node(ctx context.Context, path string, history adminpb.History) error {
	c := e.caller
	result := new(Ydb_Coordination.DescribeNodeResult)
	if err := c.Call(ctx, Ydb_Coordination_V1.CoordinationService_DescribeNode_FullMethodName,
		&Ydb_Coordination.DescribeNodeRequest{Path: path}, result); err != nil {
		return c.aboutPath(path, err)
	}
	config := result.GetConfig()
	n := &exportedNode{Node: cmp.Or(strings.TrimPrefix(path, strings.TrimSuffix(c.database, "/")+"/"), path),
		SelfCheck: config.GetSelfCheckPeriodMillis(), Grace: config.GetSessionGracePeriodMillis(),
		Read:     wordOf(config.GetReadConsistencyMode(), consistencyOf, "strict", "relaxed"),
		Attach:   wordOf(config.GetAttachConsistencyMode(), consistencyOf, "strict", "relaxed"),
		Counters: wordOf(config.GetRateLimiterCountersMode(), countersOf, "aggregated", "detailed")}
	if history != adminpb.History_META {
		n.History = historyWord(history)
	}
	if err := writeYAML(e.to, []any{n}); err != nil {
		return err
	}
	e.nodes++
	var names []string
	err := c.listSemaphores(ctx, path, "", func(s *adminpb.Semaphore) error {
		if !s.GetEphemeral() {
			names = append(names, string(s.GetName()))
		}
		return nil
	})
	if err != nil || len(names) == 0 {
		return err
	}
	return c.withSession(ctx, path, "export",
		func(s *protocol.Session) error { return e.semaphores(ctx, s, names) })
}

func (e *export) semaphores(ctx context.Context, s *protocol.Session, names []string) error {
	head := "  semaphores:\n"
	for _, name := range names {
		d, _, err := s.Describe(ctx, name, protocol.Wanted{})
		switch {
		case protocol.StatusOf(err) == Ydb.StatusIds_NOT_FOUND: // it was deleted meanwhile
			continue
		case err != nil:
			return aboutSemaphore(name, err)
		case d.GetEphemeral(): // another one has its name now
			continue
		}
		shown := showBytes(d.GetData())
		if len(d.GetData()) == 0 {
			shown = bytesShown{}
		}
		var text bytes.Buffer
		text.WriteString(head)
		head = ""
		exported := &exportedSemaphore{&name, d.GetLimit(), shown.Data, shown.Base64}
		if err := writeYAML(indented{&text}, []any{exported}); err != nil {
			return err
		}
		if _, err := e.to.Write(text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeYAML writes a value with everything escaped that cannot be printed. The encoder escapes less, and would
// write a text of several lines as a block, in which nothing can be escaped.
func writeYAML(w io.Writer, value any) error {
	var root yaml.Node
	if err := root.Encode(value); err != nil {
		return err
	}
	quoteUnprintable(&root)
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&root), encoder.Close()); err != nil {
		return err
	}
	_, err := w.Write(printable(text.Bytes(), func(w *bytes.Buffer, r rune) { fmt.Fprintf(w, `\U%08x`, r) }))
	return err
}

func quoteUnprintable(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && strconv.Quote(node.Value) != `"`+node.Value+`"` {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, inner := range node.Content {
		quoteUnprintable(inner)
	}
}

// indented moves whole lines to the right.
type indented struct{ w io.Writer }

// Write gets whole lines, in which there are no line breaks but their own.
func (i indented) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		if _, err := fmt.Fprintf(i.w, "  %s", line); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}

func importCommand(env *cmdline.Env) *cobra.Command {
	var file string
	var replace bool
	var nodes []exportedNode
	command := askCommand(env, &question{use: "import", timeout: exchangeTimeout,
		short: "Create coordination nodes and their configuration from YAML",
		long: "Create coordination nodes and their configuration from the output of 'coordd export', on stdin\n" +
			"or in the file of --file.\n\n" + importText,
		example: "  coordd export > nodes.yaml && coordd import < nodes.yaml\n" +
			"  coordd export app > app.yaml && coordd import --file app.yaml --replace",
		check: func(*pflag.FlagSet, []string) (err error) {
			nodes, err = readExport(env, file)
			return err
		},
		act: func(ctx context.Context, c *caller, _ []string) (string, error) {
			i := &importing{caller: c, replace: replace}
			progress := progressOf(env)
			defer progress.End()
			for n := range nodes {
				progress.Show("importing", "nodes", uint64(n), uint64(len(nodes)))
				if err := i.node(ctx, &nodes[n]); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("made %s and %s, replaced %d and %d, left %d and %d as they were",
				counted(i.nodes.made, "node"), counted(i.semaphores.made, "semaphore"), i.nodes.replaced,
				i.semaphores.replaced, i.nodes.left, i.semaphores.left), nil
		}}, nil)
	command.Flags().StringVar(&file, "file", "", "file to read (default: stdin)")
	command.Flags().BoolVar(&replace, "replace", false,
		"replace the settings and the data of what is there already")
	return command
}

// readExport reads a file, and sees that everything in it can be done.
func readExport(env *cmdline.Env, file string) ([]exportedNode, error) {
	from, name := env.Stdin, "stdin"
	if file != "" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, exit.Usagef("flag --file: %w", err)
		}
		defer opened.Close()
		from, name = opened, "flag --file: "+file
	}
	content, err := io.ReadAll(io.LimitReader(from, importMost+1))
	switch {
	case err != nil && exit.IsUsage(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(content) > importMost:
		return nil, exit.Usagef("%s: more than %d bytes are not allowed: give the nodes in several files",
			name, importMost)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var nodes []exportedNode
	if err := decoder.Decode(&nodes); err != nil && !errors.Is(err, io.EOF) {
		return nil, exit.Usagef("%s: %s", name, aboutYAML(err))
	}
	for i := range nodes {
		if err := nodes[i].check(); err != nil {
			return nil, exit.Usagef("%s: node %q: %w", name, nodes[i].Node, err)
		}
	}
	return nodes, nil
}

var (
	unknownKey = regexp.MustCompile(`field (.*) not found in type .*`)
	wrongKind  = regexp.MustCompile("cannot unmarshal \\S+ (`.*`) into .*")
)

// aboutYAML is an error of YAML's decoder for a person: the first of them, without Go's types.
func aboutYAML(err error) string {
	text := err.Error()
	if several := new(yaml.TypeError); errors.As(err, &several) {
		text = several.Errors[0]
	}
	text = unknownKey.ReplaceAllString(strings.TrimPrefix(text, "yaml: "), "there is no key $1 here")
	return wrongKind.ReplaceAllString(text, "$1 is not allowed here")
}

func (n *exportedNode) check() error {
	f := nodeFlags{read: n.Read, attach: n.Attach, counters: n.Counters}
	_, history := histories[n.History]
	switch {
	case n.History != "" && !history:
		return fmt.Errorf("history: value %q is not allowed: want none, meta or data", n.History)
	case n.Node == "":
		return errors.New("it has no name")
	case n.Read != "" && consistencyOf(f.read) == 0:
		return fmt.Errorf("read_consistency: value %q is not allowed: want strict or relaxed", n.Read)
	case n.Attach != "" && consistencyOf(f.attach) == 0:
		return fmt.Errorf("attach_consistency: value %q is not allowed: want strict or relaxed", n.Attach)
	case n.Counters != "" && countersOf(f.counters) == 0:
		return fmt.Errorf("rate_limiter_counters: value %q is not allowed: want aggregated or detailed",
			n.Counters)
	}
	for i := range n.Semaphores {
		s := &n.Semaphores[i]
		if err := s.check(); s.Name == nil {
			return fmt.Errorf("semaphore %d: %w", i+1, err)
		} else if err != nil {
			return fmt.Errorf("semaphore %.60q: %w", *s.Name, err)
		}
	}
	return nil
}

func (s *exportedSemaphore) check() error {
	data, err := s.data()
	switch {
	case s.Name == nil:
		return errors.New(`name: no value given; the empty name is ""`)
	case len(*s.Name) > protocol.NameMost:
		return fmt.Errorf("name: %d bytes are not allowed: want up to %d", len(*s.Name), protocol.NameMost)
	case s.Limit == 0:
		return errors.New("limit: no value given, or 0; want a number from 1 to 18446744073709551615")
	case s.Data != nil && s.Base64 != nil:
		return errors.New("data and data_base64: give one of them")
	case err != nil:
		return fmt.Errorf("data_base64: %w", err)
	case len(data) > protocol.DataMost:
		return fmt.Errorf("data: %d bytes are not allowed: want up to %d", len(data), protocol.DataMost)
	}
	return nil
}

func (s *exportedSemaphore) data() ([]byte, error) {
	switch {
	case s.Data != nil:
		return []byte(*s.Data), nil
	case s.Base64 != nil:
		return base64.StdEncoding.DecodeString(*s.Base64)
	}
	return nil, nil
}

// importing makes what an export had, and counts it.
type importing struct {
	caller            *caller
	replace           bool
	nodes, semaphores struct{ made, replaced, left int }
}

func (i *importing) node(ctx context.Context, n *exportedNode) error {
	c, path := i.caller, i.caller.path(n.Node)
	config := (&nodeFlags{read: n.Read, attach: n.Attach, counters: n.Counters}).config()
	config.SelfCheckPeriodMillis, config.SessionGracePeriodMillis = n.SelfCheck, n.Grace
	made, err := c.makeNode(ctx, path, config)
	switch {
	case err != nil:
		return err
	case made:
		i.nodes.made++
	case !i.replace:
		i.nodes.left++
	default:
		if err := c.alterNode(ctx, path, config); err != nil {
			return err
		}
		i.nodes.replaced++
	}
	if made || i.replace {
		if err := c.setHistory(ctx, path, n.History); err != nil {
			return err
		}
	}
	if len(n.Semaphores) == 0 {
		return nil
	}
	return c.withSession(ctx, path, "import", func(s *protocol.Session) error {
		for at := range n.Semaphores {
			if err := i.semaphore(ctx, s, &n.Semaphores[at]); err != nil {
				return fmt.Errorf("%s: %w", path, aboutSemaphore(*n.Semaphores[at].Name, err))
			}
		}
		return nil
	})
}

func (i *importing) semaphore(ctx context.Context, s *protocol.Session, wanted *exportedSemaphore) error {
	data, err := wanted.data()
	if err != nil {
		return err
	}
	err = s.Create(ctx, *wanted.Name, wanted.Limit, data)
	switch {
	case err == nil:
		i.semaphores.made++
		return nil
	case protocol.StatusOf(err) != Ydb.StatusIds_ALREADY_EXISTS:
		return err
	case !i.replace:
		i.semaphores.left++
		return nil
	}
	d, _, err := s.Describe(ctx, *wanted.Name, protocol.Wanted{})
	if err != nil {
		return err
	}
	if d.GetLimit() != wanted.Limit {
		return fmt.Errorf("%q has a limit of %d, and cannot get one of %d: delete it first", *wanted.Name,
			d.GetLimit(), wanted.Limit)
	}
	if err := s.Update(ctx, *wanted.Name, data); err != nil {
		return err
	}
	i.semaphores.replaced++
	return nil
}
