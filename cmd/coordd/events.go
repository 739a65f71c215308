package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/history"
)

// eventNames are the kinds of events that servers keep, by their names here.
var eventNames = map[string]adminpb.Event_Kind{
	"expired": adminpb.Event_SESSION_EXPIRED, "killed": adminpb.Event_SESSION_ENDED,
	"stopped": adminpb.Event_SESSION_STOPPED, "lock": adminpb.Event_LOCK_LOST,
	"created": adminpb.Event_SEMAPHORE_CREATED, "changed": adminpb.Event_DATA_CHANGED,
	"deleted": adminpb.Event_SEMAPHORE_DELETED, "dropped": adminpb.Event_NODE_DROPPED,
	"administered": adminpb.Event_ADMINISTERED, "leader": adminpb.Event_LEADER,
}

// eventShown is an event, as the output has it.
type eventShown struct {
	Time         *string      `json:"time"`
	Kind         string       `json:"kind"`
	Node         string       `json:"node,omitempty"` // or the path that an administrator has changed
	Session      uint64       `json:"session,omitempty"`
	Semaphore    string       `json:"semaphore,omitempty"`
	OrderID      uint64       `json:"order_id,omitempty"`
	Description  string       `json:"description,omitempty"`
	Client       *clientShown `json:"client,omitempty"`
	SilentMillis uint64       `json:"silent_millis,omitempty"`
	Held         uint64       `json:"held,omitempty"`
	Awaited      uint64       `json:"awaited,omitempty"`
	Names        []string     `json:"names,omitempty"` // of up to three semaphores that it held or awaited
	User         string       `json:"user,omitempty"`
	Reason       string       `json:"reason,omitempty"`
	Act          string       `json:"act,omitempty"`
	Target       string       `json:"target,omitempty"`
	Server       string       `json:"server,omitempty"`
	Term         uint64       `json:"term,omitempty"`
	Cause        string       `json:"cause,omitempty"`
	More         uint64       `json:"more,omitempty"` // of the kind, that it stands for as well
	Index        uint64       `json:"index"`
	Text         string       `json:"text"`
}

func kindName(kind adminpb.Event_Kind) string {
	for name, k := range eventNames {
		if k == kind {
			return name
		}
	}
	return ""
}

func showEvent(e *adminpb.Event) *eventShown {
	shown := &eventShown{Time: timeShown(e.GetTimeMillis()), Kind: kindName(e.GetKind()), Node: e.GetPath(),
		Session: e.GetSession(), Semaphore: string(e.GetSemaphore()), OrderID: e.GetOrderId(),
		Description: e.GetDescription(), SilentMillis: e.GetSilentMillis(), Held: e.GetHeld(), Awaited: e.GetAwaited(),
		User: e.GetUser(), Reason: e.GetReason(), Act: e.GetAct(), Target: e.GetTarget(), Server: e.GetServer(),
		Term: e.GetTerm(), Cause: kindName(e.GetCause()), More: e.GetSkipped(), Index: e.GetIndex(), Text: eventText(e)}
	if c := e.GetClient(); c != nil {
		shown.Client = &clientShown{Address: c.GetAddress(), SDK: c.GetSdk(), User: c.GetUser()}
	}
	for _, name := range e.GetNames() {
		shown.Names = append(shown.Names, string(name))
	}
	return shown
}

// by names the user of an event.
func by(user string) string {
	if user == "" {
		return "by an anonymous caller"
	}
	return fmt.Sprintf("by %q", user)
}

// eventText describes an event in a sentence.
func eventText(e *adminpb.Event) (text string) {
	session := fmt.Sprintf("session %d", e.GetSession())
	if e.GetDescription() != "" {
		session += fmt.Sprintf(" %q", e.GetDescription())
	}
	if many, is := manyTexts[e.GetKind()]; is && history.SumsMany(e) {
		if text = fmt.Sprintf("%s %s", counted(1+e.GetSkipped(), many[0]), many[1]); e.GetUser() != "" {
			text += " " + by(e.GetUser())
		}
		return text + ", too many to keep each"
	}
	held := func() string { return millisText(e.GetTimeMillis() - min(e.GetBefore(), e.GetTimeMillis())) }
	switch e.GetKind() {
	case adminpb.Event_SESSION_EXPIRED:
		text = fmt.Sprintf("%s expired after %s without its client%s", session, millisText(e.GetSilentMillis()),
			endText(e))
	case adminpb.Event_SESSION_STOPPED:
		text = session + " was stopped by its client" + endText(e)
	case adminpb.Event_SESSION_ENDED:
		text = fmt.Sprintf("%s was killed %s", session, by(e.GetUser()))
		if e.GetReason() != "" {
			text += fmt.Sprintf(" because of %q", e.GetReason())
		}
		text += endText(e)
	case adminpb.Event_LOCK_LOST:
		text = fmt.Sprintf("%s released %q after %s", session, e.GetSemaphore(), held())
		if e.GetCause() != 0 {
			text = fmt.Sprintf("%s lost %q after %s: %s", session, e.GetSemaphore(), held(), causeTexts[e.GetCause()])
		}
	case adminpb.Event_SEMAPHORE_CREATED, adminpb.Event_SEMAPHORE_DELETED, adminpb.Event_DATA_CHANGED:
		actor := session
		switch {
		case e.GetSession() == 0:
			actor = strings.TrimPrefix(by(e.GetUser()), "by ")
		case e.GetUser() != "":
			actor += fmt.Sprintf(" of %q", e.GetUser())
		}
		text = fmt.Sprintf("%q was %s by %s", e.GetSemaphore(), kindName(e.GetKind()), actor)
		if e.GetKind() == adminpb.Event_DATA_CHANGED {
			text += fmt.Sprintf(" from %s to %d", counted(e.GetBefore(), "byte"), e.GetCount())
		}
		if c := e.GetClient(); c.GetAddress() != "" {
			text += ", " + addressText(c)
		}
	case adminpb.Event_NODE_DROPPED:
		text = fmt.Sprintf("the node was dropped %s with %s and %s", by(e.GetUser()),
			counted(e.GetCount(), "session"), counted(e.GetBefore(), "held lock"))
	case adminpb.Event_ADMINISTERED:
		text = e.GetAct()
		if !strings.HasSuffix(text, " member") { // the log of the membership has no users
			text += " " + by(e.GetUser())
		}
		if e.GetTarget() != "" {
			text += ": " + e.GetTarget()
		}
	case adminpb.Event_LEADER:
		text = fmt.Sprintf("server %s leads in term %d", cmp.Or(e.GetServer(), "(unknown)"), e.GetTerm())
	}
	if e.GetSkipped() > 0 {
		text += fmt.Sprintf(" (and %d more)", e.GetSkipped())
	}
	return text
}

// manyTexts are of sums of many nodes or acts.
var manyTexts = map[adminpb.Event_Kind][2]string{
	adminpb.Event_SESSION_EXPIRED: {"session", "expired"}, adminpb.Event_SESSION_ENDED: {"session", "killed"},
	adminpb.Event_SESSION_STOPPED: {"session", "stopped by clients"}, adminpb.Event_LOCK_LOST: {"lock", "ended"},
	adminpb.Event_SEMAPHORE_CREATED: {"semaphore", "created"}, adminpb.Event_DATA_CHANGED: {"change", "of data"},
	adminpb.Event_SEMAPHORE_DELETED: {"semaphore", "deleted"}, adminpb.Event_NODE_DROPPED: {"node", "dropped"},
	adminpb.Event_ADMINISTERED: {"act", "of administration"},
}

var causeTexts = map[adminpb.Event_Kind]string{
	adminpb.Event_SESSION_EXPIRED:   "its session expired",
	adminpb.Event_SESSION_STOPPED:   "its client stopped the session",
	adminpb.Event_SESSION_ENDED:     "its session was killed",
	adminpb.Event_SEMAPHORE_DELETED: "the semaphore was deleted",
}

// endText describes what a session held, and its client.
func endText(e *adminpb.Event) string {
	var names []string
	for _, name := range e.GetNames() {
		names = append(names, fmt.Sprintf("%q", name))
	}
	if others := max(e.GetHeld(), uint64(len(names))) - uint64(len(names)); others > 0 && e.GetHeld() > 0 {
		names = append(names, fmt.Sprintf("%d more", others))
	}
	text := ""
	switch {
	case e.GetHeld() > 0:
		text = ": it held " + strings.Join(names, ", ")
	case e.GetAwaited() > 0:
		text = ": it waited for " + strings.Join(names, ", ")
	}
	switch c := e.GetClient(); {
	case c != nil:
		text += "; " + addressText(c)
	case e.GetLost() == adminpb.Event_LEADER_CHANGED:
		text += "; its client is unknown since the leader changed"
	}
	return text
}

func addressText(c *adminpb.SessionClient) string {
	return fmt.Sprintf("client %s, sdk %q, user %s", c.GetAddress(), c.GetSdk(), quotedName(c.GetUser()))
}

// eventsFlags select events.
type eventsFlags struct {
	since     time.Duration
	kinds     []string
	session   uint64
	semaphore string
	limit     uint32
	follow    bool
}

func (f *eventsFlags) check(flags *pflag.FlagSet, _ []string) error {
	for _, kind := range f.kinds {
		if _, known := eventNames[kind]; !known {
			return exit.Usagef("flag --kind: value %q is not allowed: want some of %s", kind,
				strings.Join(slices.Sorted(maps.Keys(eventNames)), ", "))
		}
	}
	switch {
	case flags.Changed("since") && f.since <= 0:
		return exit.Usagef("flag --since: value %q is not allowed: want a time such as 10m or 2h", f.since)
	case f.limit == 0:
		return exit.Usagef("flag --limit: value 0 is not allowed: want a number above 0")
	}
	return nil
}

func (f *eventsFlags) request(path string) *adminpb.EventsRequest {
	r := &adminpb.EventsRequest{Path: path, Session: f.session, Semaphore: []byte(f.semaphore)}
	if f.since > 0 { // the clock here may be wrong
		r.WithinMillis = max(1, uint64(f.since.Milliseconds()))
	}
	for _, kind := range f.kinds {
		r.Kinds = append(r.Kinds, eventNames[kind])
	}
	return r
}

func eventsCommand(env *cmdline.Env) *cobra.Command {
	out, f := new(outputFlag), new(eventsFlags)
	command := askCommand(env, &question{use: "events [PATH]", check: f.check, stays: true,
		short: "Show events: ended sessions, configuration changes, administrative acts",
		long: "Each server keeps the rare events of the whole cluster on its disk, 64 MiB of them; the asked\n" +
			"one asks the others, and reports those that do not answer. PATH is a node, or a directory\n" +
			"whose nodes are meant at any depth. Times are the leaders'. A session that its client stopped\n" +
			"while it held nothing is no event. What a node, or all nodes of a directory directly below the\n" +
			"database, have beyond their share is summed up each second.\n\n" +
			oursText,
		example: "  coordd events --since 2h\n  coordd events app --kind expired,killed\n" +
			"  coordd events app --semaphore nightly-report -o jsonl",
		run: func(ctx context.Context, c *caller, args []string) error {
			return c.events(ctx, env, out, f, pathOr(c, args, ""))
		}}, out)
	flags := command.Flags()
	flags.DurationVar(&f.since, "since", 0, "only those of this time until now, 2h say")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these kinds: "+
		strings.Join(slices.Sorted(maps.Keys(eventNames)), ", "))
	flags.Uint64Var(&f.session, "session", 0, "only those of this session")
	flags.StringVar(&f.semaphore, "semaphore", "", "only those that name this semaphore")
	flags.Uint32Var(&f.limit, "limit", 1000, "the newest so many")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with those that happen, until stopped")
	flags.Lookup("data-dir").Usage += "; if that does not run, read its events from there"
	_ = command.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(
		slices.Sorted(maps.Keys(eventNames)), cobra.ShellCompDirectiveNoFileComp))
	ask := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		directory := command.Flags().Lookup("data-dir").Value.String()
		if directory == "" || f.follow {
			return ask(command, args)
		}
		unused, err := files.Disk{}.Lock(directory, true)
		if err != nil { // a server runs there, or there is no directory
			return ask(command, args)
		}
		return errors.Join(out.check(), f.check(command.Flags(), args), eventsOfDir(env, out, f, directory, args),
			unused.Close())
	}
	return command
}

// events shows those that were kept, the oldest first, and with --follow those that come.
func (c *caller) events(ctx context.Context, env *cmdline.Env, out *outputFlag, f *eventsFlags, path string) error {
	request, most := f.request(path), int(f.limit)
	for {
		asking, cancel := context.WithTimeout(ctx, callerTimeout)
		list, unknown, err := c.findEvents(asking, request, most)
		cancel()
		say := func(line string) { fmt.Fprintln(env.Stderr, line) }
		if goesOn := f.follow && c.goesOn(ctx, say, err); err != nil && !goesOn {
			return err
		}
		for _, why := range unknown {
			if request.GetAfter() == nil {
				fmt.Fprintf(env.Stderr, "coordd: events are missing: %s\n", why)
			}
		}
		if !f.follow {
			return errors.Join(showEvents(env, out, list), c.missing(ctx, path, len(list)))
		}
		for _, e := range slices.Backward(list) {
			if err := showNext(env, out, showEvent(e), eventLine(e)); err != nil {
				return err
			}
		}
		if len(list) > 0 {
			request.After = list[0]
		}
		if err == nil {
			most = math.MaxInt // the limit is for those that there were
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// missing returns an error if nothing was found of a path that does not exist.
func (c *caller) missing(ctx context.Context, path string, found int) error {
	if path == "" || found > 0 {
		return nil
	}
	_, err := c.page(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_NODES, Path: path, PageSize: 1})
	if exit.Of(err) == exit.NotFound {
		return err
	}
	return nil // that is no part of the answer
}

// findEvents asks for events until there are as many as wanted, the newest first.
func (c *caller) findEvents(ctx context.Context, r *adminpb.EventsRequest,
	most int) (list []*adminpb.Event, unknown []string, err error) {
	for {
		r.Limit = uint32(min(most-len(list), 1000))
		page := new(adminpb.EventsResponse)
		if err := c.inspect(ctx, adminpb.Inspect_Events_FullMethodName, r, page); err != nil {
			return nil, nil, err
		}
		list, unknown = append(list, page.GetEvents()...), page.GetUnknown()
		if !page.GetMore() || len(list) >= most || len(page.GetEvents()) == 0 {
			r.Before = nil
			return list, unknown, nil
		}
		r.Before = list[len(list)-1]
	}
}

// eventsOfDir shows the events in a data directory.
func eventsOfDir(env *cmdline.Env, out *outputFlag, f *eventsFlags, directory string, args []string) error {
	path := strings.TrimSuffix(strings.Join(args, ""), "/")
	if path != "" && path[0] != '/' {
		return exit.Usagef("argument PATH: value %q is not allowed for a server that does not run: want one such as "+
			"/local/app", path)
	}
	if _, err := os.Stat(filepath.Join(directory, history.Dir)); errors.Is(err, fs.ErrNotExist) {
		return exit.With(exit.NotFound, fmt.Errorf("%s has no events: want the data directory of a server", directory))
	}
	r := f.request(path)
	since := uint64(0)
	if f.since > 0 {
		since = uint64(time.Now().Add(-f.since).UnixMilli())
	}
	list, err := history.ReadDir(context.Background(), directory, &history.Query{SinceMillis: since,
		Limit: int(f.limit), Wanted: func(e *adminpb.Event) bool {
			if e.GetKind() == adminpb.Event_GAP {
				fmt.Fprintf(env.Stderr, "coordd: the entries %d to %d of the log: their events are missing\n",
					e.GetIndex(), e.GetLastIndex())
			}
			return history.Wants(r, e)
		}})
	if err != nil {
		return fmt.Errorf("the events in %s: %w", directory, err)
	}
	return showEvents(env, out, list)
}

func showEvents(env *cmdline.Env, out *outputFlag, list []*adminpb.Event) error {
	rows := out.list(env.Stdout, "TIME", "PATH", "EVENT")
	for _, e := range slices.Backward(list) {
		if err := rows.add(showEvent(e), dayText(e.GetTimeMillis()), e.GetPath(), eventText(e)); err != nil {
			return err
		}
	}
	return endList(env, rows, "events", nil)
}

// eventLine is an event on a line.
func eventLine(e *adminpb.Event) string {
	return cmdline.OneLine(fmt.Sprintf("%s %s %s", dayText(e.GetTimeMillis()), e.GetPath(), eventText(e)))
}

// holds returns the last holds of a semaphore that have ended.
func (c *caller) holds(ctx context.Context, node, name string) ([]*holdShown, error) {
	answer := new(adminpb.EventsResponse)
	err := c.inspect(ctx, adminpb.Inspect_Events_FullMethodName,
		&adminpb.EventsRequest{Path: c.path(node), Semaphore: []byte(name), Limit: 1}, answer)
	list := []*holdShown{}
	for _, h := range answer.GetHolds() {
		shown := &holdShown{Session: h.GetSession(), OrderID: h.GetOrderId(), Granted: timeShown(h.GetGrantedMillis()),
			Ended: timeShown(h.GetEndedMillis()), End: "released"}
		if h.GetCause() != 0 {
			shown.End = causeTexts[h.GetCause()]
		}
		if h.GetGrantedMillis() != 0 {
			shown.HeldMillis = h.GetEndedMillis() - min(h.GetGrantedMillis(), h.GetEndedMillis())
		}
		list = append(list, shown)
	}
	return list, err
}

// holdShown is a time for which a session held a semaphore.
type holdShown struct {
	Session    uint64  `json:"session"`
	OrderID    uint64  `json:"order_id"`
	Granted    *string `json:"granted"`
	Ended      *string `json:"ended"`
	HeldMillis uint64  `json:"held_millis"`
	End        string  `json:"end"`
}

func (h *holdShown) String() string {
	text := fmt.Sprintf("session %d, order id %d, for %s", h.Session, h.OrderID, millisText(h.HeldMillis))
	if h.Ended != nil {
		text += " until " + *h.Ended
	}
	return text + ", " + h.End
}

// howEnded describes the end of a session that is no more, "" if it is not known.
func (c *caller) howEnded(ctx context.Context, node string, session uint64) string {
	id := uint64(0) // another node may have been at the path
	err := c.listNodes(ctx, node, func(n *adminpb.Node) error {
		id = n.GetId()
		return nil
	})
	if err != nil {
		return ""
	}
	list, _, err := c.findEvents(ctx, &adminpb.EventsRequest{Path: node, Session: session, Kinds: []adminpb.Event_Kind{
		adminpb.Event_SESSION_EXPIRED, adminpb.Event_SESSION_ENDED, adminpb.Event_SESSION_STOPPED}}, 1)
	if err != nil || len(list) == 0 || list[0].GetNode() != id {
		return ""
	}
	return dayText(list[0].GetTimeMillis()) + " " + eventText(list[0])
}
