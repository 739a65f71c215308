package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	topEvery = 2 * time.Second
	// topRows bounds the semaphores that are shown where there is no terminal: a server names so many holders.
	topRows = 256
	// topFrame is the number of lines of a terminal for the headings and the keys.
	topFrame = 3
)

// topOrders are the orders in which `coordd top` shows semaphores.
var topOrders = []struct {
	key         byte
	name, words string
	order       adminpb.PageRequest_Order
}{
	{'w', "wait", "longest wait first", adminpb.PageRequest_OLDEST_WAIT},
	{'h', "held", "longest held first", adminpb.PageRequest_LONGEST_HELD},
	{'n', "name", "by name", adminpb.PageRequest_NAME},
}

// topShown lists the semaphores that are held or awaited at a time.
type topShown struct {
	Time  *string    `json:"time"`
	Sort  string     `json:"sort"`
	Total *uint64    `json:"total"` // of what is held or awaited; nil: not told
	Whole bool       `json:"whole"` // false: there is more than was looked at
	Locks []*topLock `json:"locks"`

	view   *topView
	millis uint64
}

// topLock is a semaphore with its oldest owner and waiter.
type topLock struct {
	Node      string      `json:"node"`
	Name      string      `json:"name"`
	Limit     uint64      `json:"limit"`
	Count     uint64      `json:"count"`
	Ephemeral bool        `json:"ephemeral"`
	Owners    uint64      `json:"owners"`
	Waiters   uint64      `json:"waiters"`
	Owner     *topSession `json:"oldest_owner"`  // nil: it is free
	Waiter    *topSession `json:"oldest_waiter"` // nil: nobody waits
}

type topSession struct {
	Session       uint64       `json:"session"`
	OrderID       uint64       `json:"order_id"`
	Since         *string      `json:"since"`
	TimeoutMillis *uint64      `json:"timeout_millis,omitempty"` // of a wait; missing: for ever
	Description   *string      `json:"description"`
	Client        *clientShown `json:"client"`

	since uint64
	told  *adminpb.Session
}

func topSessionOf(links []*adminpb.Link) *topSession {
	if len(links) == 0 {
		return nil
	}
	l := links[0]
	return &topSession{Session: l.GetSession(), OrderID: l.GetOrderId(), Since: timeShown(l.GetSinceMillis()),
		since: l.GetSinceMillis()}
}

func topCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	var often looks
	var sort, filter string
	command := askCommand(env, &question{use: "top [PATH]", stays: true,
		short: "Show what is held or awaited, continuously",
		long: "The longest waits come first, or what is held for longest. Of several holders the oldest\n" +
			"is shown. At a terminal each look replaces the last one, and there are keys:\n" +
			"  w, h, n  sort by the longest wait, by how long it is held, or by name\n" +
			"  /        show only what has a text in its name or its node: type it, then Enter\n" +
			"  q        end\n\n" + oursText,
		example: "  coordd top --times 1\n  coordd top app --sort held --times 1 -o jsonl",
		check: func(flags *pflag.FlagSet, _ []string) error {
			if topOrder(sort) < 0 {
				return exit.Usagef("flag --sort: value %q is not allowed: want wait, held or name", sort)
			}
			return often.check(flags)
		},
		run: func(ctx context.Context, c *caller, args []string) error {
			view := &topView{path: pathOr(c, args, ""), database: c.database, sort: topOrder(sort), filter: filter,
				rows: topRows}
			return often.show(ctx, env, out, view, func(say func(line string)) (*topShown, error) {
				shown, err := c.look(ctx, view)
				if c.goesOn(ctx, say, err) {
					err = nil
				}
				return shown, err
			})
		}}, out)
	often.declare(command.Flags(), topEvery)
	command.Flags().StringVar(&sort, "sort", topOrders[0].name, "what comes first: wait, held or name")
	command.Flags().StringVar(&filter, "filter", "", "only what has this in its name or its node")
	return command
}

func topOrder(name string) int {
	for i := range topOrders {
		if topOrders[i].name == name {
			return i
		}
	}
	return -1
}

// look asks for what is held or awaited.
func (c *caller) look(ctx context.Context, view *topView) (*topShown, error) {
	ctx, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	page, err := c.page(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES, Path: view.path,
		Order: topOrders[view.sort].order, Search: []byte(view.filter), PageSize: uint32(view.rows)})
	if err != nil {
		return nil, err
	}
	shown := &topShown{Time: timeShown(page.GetTimeMillis()), Sort: topOrders[view.sort].name, Whole: !page.GetMore(),
		Locks: []*topLock{}, view: view, millis: page.GetTimeMillis()}
	if page.GetTotal() > 0 {
		total := page.GetTotal()
		shown.Total = &total
	}
	holders := make(map[string]map[uint64]*adminpb.Session)
	for _, s := range page.GetHolders() {
		if holders[s.GetPath()] == nil {
			holders[s.GetPath()] = make(map[uint64]*adminpb.Session)
		}
		holders[s.GetPath()][s.GetId()] = s
	}
	for _, s := range page.GetSemaphores() {
		lock := &topLock{Node: s.GetPath(), Name: string(s.GetName()), Limit: s.GetLimit(), Count: s.GetCount(),
			Ephemeral: s.GetEphemeral(), Owners: s.GetOwnerCount(), Waiters: s.GetWaiterCount(),
			Owner: topSessionOf(s.GetOwners()), Waiter: topSessionOf(s.GetWaiters())}
		if lock.Owner != nil {
			if told := holders[lock.Node][lock.Owner.Session]; told != nil {
				description := told.GetDescription()
				lock.Owner.told, lock.Owner.Description, lock.Owner.Client = told, &description, showClient(told)
			}
		}
		if lock.Waiter != nil {
			lock.Waiter.TimeoutMillis = waitShown(s.GetWaiters()[0].GetTimeoutMillis())
		}
		shown.Locks = append(shown.Locks, lock)
	}
	return shown, nil
}

// text prints the look. Its lines fit the view.
func (t *topShown) text(w io.Writer) {
	for _, line := range t.lines() {
		fmt.Fprintln(w, line)
	}
}

func (t *topShown) lines() []string {
	rows := [][]string{{"NODE", "LOCK", "HELD FOR", "HOLDER", "ADDRESS", "WAITERS", "WAIT"}}
	for _, l := range t.Locks {
		node := cmp.Or(strings.TrimPrefix(l.Node, t.view.database+"/"), "/")
		row := []string{node, fmt.Sprintf("%q", l.Name), "free", "", "", fmt.Sprint(l.Waiters), ""}
		if l.Owner != nil {
			row[2], row[3], row[4] = t.age(l.Owner.since), l.holder(), l.address()
		}
		if l.Waiter != nil {
			row[6] = t.age(l.Waiter.since)
		}
		for i := range row {
			row[i] = cmdline.Printable(row[i])
		}
		rows = append(rows, row)
	}
	lines := append([]string{t.heading()}, tty.Table(rows, t.view.width)...)
	if t.view.width == 0 {
		return lines
	}
	for len(lines) < t.view.rows+topFrame-1 {
		lines = append(lines, "")
	}
	return append(lines, tty.Cut(t.view.keys(), t.view.width))
}

func (t *topShown) heading() string {
	text := "what is held or awaited"
	if t.Total != nil {
		text = fmt.Sprintf("%d held or awaited", *t.Total)
	}
	text += ", " + topOrders[t.view.sort].words
	if t.view.filter != "" {
		text += fmt.Sprintf(", only with %q", t.view.filter)
	}
	if !t.Whole {
		text += "; there are more"
	}
	text += ", at " + dayText(t.millis)
	if t.view.width > 0 {
		text = tty.Cut(text, t.view.width)
	}
	return text
}

// age returns the time since something began, by the server's clock.
func (t *topShown) age(since uint64) string {
	if since == 0 {
		return "unknown"
	}
	return ageText(time.Duration(t.millis-min(since, t.millis)) * time.Millisecond)
}

// ageText is a time in its two largest units.
func ageText(age time.Duration) string {
	switch days := age / (24 * time.Hour); {
	case age < time.Minute:
		return fmt.Sprintf("%ds", age/time.Second)
	case age < time.Hour:
		return fmt.Sprintf("%dm%02ds", age/time.Minute, age%time.Minute/time.Second)
	case days == 0:
		return fmt.Sprintf("%dh%02dm", age/time.Hour, age%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", days, age%(24*time.Hour)/time.Hour)
	}
}

func (l *topLock) holder() string {
	text := fmt.Sprint("session ", l.Owner.Session)
	if d := l.Owner.Description; d != nil && *d != "" {
		text = *d
	}
	if l.Owners > 1 {
		text = fmt.Sprintf("%d: %s", l.Owners, text)
	}
	return text
}

// address says where the holder is, or that nobody has its session.
func (l *topLock) address() string {
	switch told := l.Owner.told; {
	case told == nil:
		return "unknown"
	case l.Owner.Client != nil:
		return l.Owner.Client.Address
	case told.GetAttached():
		return "on server " + told.GetServer()
	default:
		return "none, ends in " + millisText(told.GetLeftMillis())
	}
}

// looks are those of `coordd top`.
type looks struct {
	every time.Duration
	times int
}

// declare adds the flags; every is the default of the first.
func (l *looks) declare(flags *pflag.FlagSet, every time.Duration) {
	flags.DurationVar(&l.every, "every", every, "how often to look")
	flags.IntVar(&l.times, "times", 0, "end after so many looks (default: never)")
}

// check is what is wrong with the flags.
func (l *looks) check(flags *pflag.FlagSet) error {
	switch {
	case l.every < 100*time.Millisecond || l.every > time.Hour:
		return exit.Usagef("flag --every: value %q is not allowed: want a time from 100ms to 1h", l.every)
	case flags.Changed("times") && l.times < 1:
		return exit.Usagef("flag --times: value %d is not allowed: want a number above 0", l.times)
	}
	return nil
}

// show prints what look finds, until ctx ends or it was often enough. At a terminal each look takes the place of the
// last, and keys change the view. A look that finds nothing but is no failure is made again.
func (l *looks) show(ctx context.Context, env *cmdline.Env, out *outputFlag, view *topView,
	look func(say func(line string)) (*topShown, error)) error {
	if file := terminalOf(env.Stdout); file != nil && out.form == formTable {
		in, _ := env.Stdin.(*os.File)
		return l.draw(ctx, in, file, view, look)
	}
	for seen := 0; ; {
		begun := time.Now()
		shown, err := look(func(line string) { fmt.Fprintln(env.Stderr, line) })
		switch {
		case err != nil:
			return err
		case shown == nil:
			seen--
		case out.form == formTable:
			shown.text(env.Stdout)
		default: // what goes on is a line of json each time, in either form
			if err := writeJSON(env.Stdout, shown, ""); err != nil {
				return err
			}
		}
		if seen++; seen == l.times {
			return nil
		}
		select {
		case <-time.After(l.every - time.Since(begun)):
		case <-ctx.Done():
			return nil
		}
	}
}

// draw is show at a terminal.
func (l *looks) draw(ctx context.Context, in, out *os.File, view *topView,
	look func(say func(line string)) (*topShown, error)) error {
	s := tty.Open(in, out)
	defer s.Close()
	for seen := 0; ctx.Err() == nil; {
		begun := time.Now()
		view.fit(s.Size())
		shown, err := look(func(line string) { s.Draw([]string{tty.Cut(line, view.width)}) })
		switch {
		case err != nil:
			return err
		case shown == nil:
			seen--
		default:
			s.Draw(shown.lines())
		}
		if seen++; seen == l.times {
			return nil
		}
		if view.key(s.Key(ctx, l.every-time.Since(begun))) {
			return nil
		}
	}
	return nil
}

// topView selects and orders what is shown. Keys change it.
type topView struct {
	path     string
	database string
	sort     int // of topOrders
	filter   string
	edits    bool // what is typed belongs to the filter
	width    int  // of the terminal; 0: not at a terminal
	rows     int
}

// fit bounds what the next look finds and how it is printed.
func (v *topView) fit(columns, lines int) { v.width, v.rows = columns, max(lines-topFrame, 1) }

// key reacts to a key. It reports whether that was the last look.
func (v *topView) key(key byte) (end bool) {
	if v.edits {
		switch {
		case key == tty.Enter:
			v.edits = false
		case key == tty.Escape:
			v.edits, v.filter = false, ""
		case key == tty.Delete || key == tty.Backspace:
			v.filter = string([]rune(v.filter)[:max(len([]rune(v.filter))-1, 0)])
		case key == tty.Interrupt:
			return true
		case key >= ' ':
			v.filter += string([]byte{key})
		}
		return false
	}
	switch key {
	case 'q', tty.Interrupt:
		return true
	case '/':
		v.edits, v.filter = true, ""
	case tty.Escape:
		v.filter = ""
	}
	for i := range topOrders {
		if topOrders[i].key == key {
			v.sort = i
		}
	}
	return false
}

func (v *topView) keys() string {
	if v.edits {
		return fmt.Sprintf("only with %q_   Enter: done  Esc: all", v.filter)
	}
	return "w: by wait  h: by time held  n: by name  /: filter  q: end"
}
