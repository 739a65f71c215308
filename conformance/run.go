package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Outcome is the result of a script.
type Outcome struct {
	Skipped string // why the script cannot run on the target; empty if it ran
	Text    string // the script with what really came in place of what is expected
	Diff    string // a unified diff from the script to Text; empty if nothing differs
}

// Run replays a script on a target. An error means that the script could not be carried out: it is wrong, or
// the target cannot be reached, or what a client cannot see is broken. What differs from the script is in the
// Outcome.
//
// Where time passes by itself, a script that waits is played more slowly if the machine or the network turns
// out to be too slow for it.
func Run(ctx context.Context, target Target, script *Script) (Outcome, error) {
	for _, need := range script.Needs {
		if !target.Offers(need) {
			return Outcome{Skipped: skipped(script, need)}, nil
		}
	}
	pace := newPace(target, script)
	for {
		outcome, err := runAt(ctx, target, script, pace)
		if !errors.Is(err, errTooSlow) && !(err == nil && outcome.Diff != "" && pace.mayBeSlower(script)) {
			return outcome, err
		}
		pace = pace.slower()
	}
}

// runAt replays a script once. It gives up with errTooSlow where the pace turns out to be too fast.
func runAt(ctx context.Context, target Target, script *Script, pace pace) (outcome Outcome, err error) {
	env, err := target.Open(ctx, script.Name, script.Limits)
	if err != nil {
		return Outcome{}, fmt.Errorf("script %s: %w", script.Name, err)
	}
	defer func() { err = errors.Join(err, env.Close(ctx)) }()
	r := newRun(script, env)
	r.pace = pace
	defer r.cancelAll()
	if err := r.prepare(ctx); err != nil {
		return Outcome{}, fmt.Errorf("script %s: %w", script.Name, err)
	}
	steps := make([][]Line, len(script.steps))
	for i := range script.steps {
		if steps[i], err = r.step(ctx, &script.steps[i]); err != nil {
			return Outcome{}, fmt.Errorf("script %s: %w", script.Name, err)
		}
	}
	outcome.Text = script.with(steps, r.names)
	outcome.Diff = unifiedDiff(script.Name, strings.Join(script.lines, "\n")+"\n", outcome.Text)
	return outcome, nil
}

func skipped(script *Script, need Need) string {
	if need == NeedSameLeader {
		return "needs a leader that stays: " + script.NotFailOver
	}
	return "needs " + string(need) + " (" + needMeans[need] + ")"
}

// needMeans explains needs to a reader of the reason why a script was skipped.
var needMeans = map[Need]string{
	NeedClock:   "time that passes as fast as the script says",
	NeedRestart: "a server that it can restart",
	NeedHold:    "requests that stay in flight for as long as it says",
	NeedLimits:  "lower limits",
	NeedServers: "several servers",
	NeedWire:    "a real connection",
	NeedOpen:    "a server that serves calls without a token",
	NeedUsers:   "users called alice and bob, whose rights count",
}

// Replay is one replay of a script, or what it would show of a conversation that others have. It is not safe for
// concurrent use.
type Replay struct {
	script       *Script
	env          Environment
	pace         pace
	names        *names
	streams      map[string]*Played
	byConnection map[Stream]*Played
	Came         []Line // in the present step
	nextReqID    uint64
	held         bool
}

func newRun(script *Script, env Environment) *Replay {
	return &Replay{script: script, env: env, names: newNames(script.exact), streams: make(map[string]*Played),
		byConnection: make(map[Stream]*Played), nextReqID: firstOwnReqID}
}

// NewReplay returns a Replay of a script that is still being written: Request adds its lines, and Handle what comes.
func NewReplay(env Environment) *Replay { return newRun(&Script{Name: "recording"}, env) }

// Request carries out a line of the script, and returns the number of the request.
func (r *Replay) Request(line string) (number uint64, err error) {
	q, err := parseRequest(line)
	if err == nil {
		err = r.request(context.Background(), q)
	}
	return r.nextReqID, err
}

// Stream returns the stream that the script has started under a name, nil if it has not.
func (r *Replay) Stream(name string) *Played { return r.streams[name] }

// Session names a session of a node.
func (r *Replay) Session(node string, id uint64) string { return nodeNames{r.names, node}.session(id) }

// Resolve replaces the marks that stand for order ids by their ranks, as far as these are known.
func (r *Replay) Resolve(text string) string { return r.names.resolve(text) }

func (r *Replay) nodePath() string { return r.env.Directory() + "/node" }

func (r *Replay) expand(text string) string {
	return strings.NewReplacer(
		"{dir}", r.env.Directory(), "{reldir}", strings.TrimPrefix(r.env.Directory(), "/"),
		"{indb}", strings.TrimPrefix(r.env.Directory(), r.env.Database()+"/"),
		"{db}", r.env.Database(), "{reldb}", strings.TrimPrefix(r.env.Database(), "/"),
	).Replace(text)
}

// hidePlace is the reverse of expand, for what servers say.
func (r *Replay) hidePlace(text string) string {
	text = strings.ReplaceAll(text, r.env.Directory(), "{dir}")
	return strings.ReplaceAll(text, r.env.Database(), "{db}")
}

// prepare makes the script's node.
func (r *Replay) prepare(ctx context.Context) error {
	if r.script.node == "none" {
		return nil
	}
	q, err := parseRequest("node create {dir}/node " + r.script.node)
	if err != nil {
		return err
	}
	answer, err := r.call(ctx, q)
	if err == nil && answer != "SUCCESS" {
		err = fmt.Errorf("create the node: %s", answer)
	}
	return err
}

// step sends the requests of a step and collects what comes.
func (r *Replay) step(ctx context.Context, s *step) ([]Line, error) {
	r.Came = nil
	for i, q := range s.requests {
		if err := r.request(ctx, q); err != nil {
			return nil, fmt.Errorf("line %d: %w", q.line+1, err)
		}
		if i+1 < len(s.requests) && s.requests[i+1].together {
			continue
		}
		r.await(ctx, r.AllAnswered)
		if err := r.fence(ctx); err != nil {
			return nil, fmt.Errorf("line %d: %w", q.line+1, err)
		}
	}
	r.await(ctx, func() bool { return r.enoughCame(s.expected) })
	if err := r.fence(ctx); err != nil {
		return nil, fmt.Errorf("line %d: %w", s.from, err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.streams)) {
		if r.streams[name].overdue() {
			r.add(name, "the stream goes on")
		}
	}
	disturbed, err := r.check(ctx)
	if err == nil && disturbed { // first what the disturbance says, then what was asked because of it
		err = cmp.Or(r.fence(ctx), r.fence(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("after line %d: %w", s.to, err)
	}
	return r.Came, nil
}

// check lets the environment look at itself. Where that takes time, pings are answered meanwhile.
func (r *Replay) check(ctx context.Context) (disturbed bool, err error) {
	if r.env.Patience() == 0 {
		return r.env.Check(ctx)
	}
	checking, done := context.WithCancel(ctx)
	go func() {
		defer done()
		disturbed, err = r.env.Check(ctx)
	}()
	for e, ok := r.env.Next(checking); ok; e, ok = r.env.Next(checking) {
		r.Handle(e)
	}
	<-checking.Done()
	return disturbed, err
}

func (r *Replay) request(ctx context.Context, q request) error {
	if q.stream != "" {
		return r.streamRequest(ctx, q)
	}
	switch q.words[0] {
	case "node", "scheme", "limiter":
		answer, err := r.call(ctx, q)
		r.add(q.words[0], answer)
		return err
	case "wait":
		millis, err := parseMillis(q.words[1])
		if err != nil {
			return err
		}
		return r.wait(ctx, time.Duration(millis)*time.Millisecond)
	case "restart":
		for _, s := range r.streams {
			s.endsSoon = true
		}
		return r.env.Restart(ctx)
	case "hold":
		r.held = true
		r.env.Hold()
		return nil
	case "release":
		r.held = false
		r.env.Release()
		return nil
	}
	return fmt.Errorf("unknown request %q", q.words[0])
}

func (r *Replay) add(from, text string) { r.Came = append(r.Came, Line{from, text}) }

// wait lets time pass, and answers pings meanwhile.
func (r *Replay) wait(ctx context.Context, scripted time.Duration) error {
	if r.pace.late() {
		return errTooSlow
	}
	for d := r.pace.pass(scripted); d > 0 && ctx.Err() == nil; {
		d -= r.env.Pass(ctx, d)
		r.drain(ctx)
	}
	if r.pace.late() {
		return errTooSlow
	}
	return nil
}

// drain takes what has come so far.
func (r *Replay) drain(ctx context.Context) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	for e, ok := r.env.Next(now); ok; e, ok = r.env.Next(now) {
		r.Handle(e)
	}
}

// await takes what comes until done, or nothing more is to be expected.
func (r *Replay) await(ctx context.Context, done func() bool) {
	r.drain(ctx)
	if r.held || r.env.Patience() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.env.Patience())
	defer cancel()
	for !done() {
		e, ok := r.env.Next(ctx)
		if !ok {
			r.Forgive()
			return
		}
		r.Handle(e)
	}
}

// Forgive gives up the answers that have not come; the script's comparison shows that they are missing.
func (r *Replay) Forgive() {
	for _, s := range r.streams {
		s.starting, s.endsSoon, s.pings, s.open = false, false, 0, nil
	}
}

// AllAnswered reports whether no request waits for an answer that has to come.
func (r *Replay) AllAnswered() bool {
	for _, s := range r.streams {
		if s.owed() {
			return false
		}
	}
	return true
}

// enoughCame reports whether every stream that may still get some has got as many messages as it should.
func (r *Replay) enoughCame(expected []Line) bool {
	missing := make(map[string]int)
	for _, m := range expected {
		missing[m.From]++
	}
	for _, m := range r.Came {
		missing[m.From]--
	}
	for from, n := range missing {
		if s := r.streams[from]; n > 0 && (s == nil || !s.Over()) {
			return false
		}
	}
	return true
}

// fence makes sure that nothing more is on its way: a describe is answered behind everything that was written
// before it, on every stream (§4.5).
func (r *Replay) fence(ctx context.Context) error {
	if r.held || r.env.Patience() == 0 {
		return nil
	}
	for _, s := range r.streams {
		if !s.attached || s.Over() || s.stopping {
			continue
		}
		if err := s.sendFence(); err != nil {
			return err
		}
		r.await(ctx, func() bool { return s.Over() || !s.fenced })
		if s.fenced && !s.Over() {
			return fmt.Errorf("%s: a describe was not answered", s.name)
		}
	}
	return nil
}

func (r *Replay) cancelAll() {
	for _, s := range r.streams {
		s.connection.Cancel()
	}
}
