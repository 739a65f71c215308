// Package readiness finds out whether a server can serve clients, with two goroutines, and answers health checks.
package readiness

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/discovery"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/statelimit"
)

// State says whether a server can serve clients at the moment.
type State struct {
	Ready bool
	// Reason says why not, for people; empty when Ready.
	Reason string
}

// Readiness returns the present state. It may be called as soon as Start has returned.
func (w *Watch) Readiness() State {
	worst := w.Worst()
	return State{Ready: worst.Gravity != Fatal, Reason: worst.Text}
}

// Kind distinguishes issues for programs.
type Kind string

// The kinds of issues.
const (
	IssueStopping   Kind = "STOPPING"
	IssueFailed     Kind = "FAILED"
	IssueNoMember   Kind = "NOT_A_MEMBER"
	IssueNoLeader   Kind = "NO_LEADER"
	IssueKeptOut    Kind = "KEPT_OUT"
	IssueReplaying  Kind = "REPLAYING"
	IssueCatchingUp Kind = "CATCHING_UP"
	IssueDisk       Kind = "DISK_SPACE"
	IssueDiverged   Kind = "DIVERGED"
	IssueSilent     Kind = "SILENT_SERVER"
	IssueMute       Kind = "MUTE"
	IssueUnlike     Kind = "SETTINGS"
	IssueFull       Kind = "STATE_LIMIT"
	IssueMemory     Kind = "MEMORY"
	IssueLimits     Kind = "LIMITS"
)

// Gravity ranks issues by their effect on clients.
type Gravity int

const (
	noteworthy Gravity = iota // a failure more might be noticed
	serious                   // somebody has to act
	Fatal                     // this server cannot serve
)

// Issue is something that is not as it should be.
type Issue struct {
	Kind    Kind
	Gravity Gravity
	Text    string
	Member  uint64 // whose issue it is
}

// BehindMax bounds the entries that a server that counts as ready may lack: about as many are under way on a busy
// cluster.
const BehindMax = 1_000

// list collects issues.
type list []Issue

func (l *list) add(kind Kind, g Gravity, member uint64, format string, args ...any) {
	*l = append(*l, Issue{kind, g, fmt.Sprintf(format, args...), member})
}

// Issues lists the present issues as far as this server knows, the fatal ones first.
func (w *Watch) Issues() []Issue {
	var l list
	w.addFailures(&l)
	w.addBehind(&l)
	w.addFull(&l)
	w.addOthers(&l)
	return l
}

// addFailures adds what keeps this server from serving until somebody acts.
func (w *Watch) addFailures(l *list) {
	self := w.Store.Member()
	if err := w.Err(); err != nil {
		l.add(IssueFailed, Fatal, self, "failed: %v", err)
	}
	if w.Leaving.Load() {
		l.add(IssueStopping, Fatal, self, "stopping")
	}
	divergence, diverged := w.divergence(w.Group)
	if diverged && !divergence.Right {
		l.add(IssueDiverged, Fatal, self, "%s", w.divergenceText(divergence))
	}
	if out, why := w.Store.Peers.KeptOut(); out && why != "" {
		l.add(IssueKeptOut, Fatal, self,
			"no leader: %s; if all of them were replaced, start this server with --join HOST:PORT of a present "+
				"member, in the place of --initial-cluster", why)
	}
}

// addBehind adds the reason why this server does not follow a leader.
func (w *Watch) addBehind(l *list) {
	self := w.Store.Member()
	entries, known := w.lag(w.Group)
	replayed, of, replaying := w.Group.Replaying()
	_, isMember := w.Store.Members().Find(self)
	switch {
	case !isMember:
		l.add(IssueNoMember, Fatal, self, "not a member of the cluster, as far as this server has heard")
	case replaying:
		l.add(IssueReplaying, Fatal, self, "starting: %d of %d entries of the log executed again", replayed, of)
	case !w.Group.Led():
		l.add(IssueNoLeader, Fatal, self, "%s", w.noLeaderText())
	case w.silence.long() && w.Group.Leads():
		l.add(IssueMute, Fatal, self,
			"silent to clients: no majority has confirmed lately that this server leads; their sessions wait")
	case w.silence.long():
		l.add(IssueMute, Fatal, self,
			"silent to clients: the leader has not confirmed lately that it still leads; the connection to it is slow or broken")
	case !known:
		l.add(IssueNoLeader, Fatal, self, "no word from the leader yet")
	case entries > BehindMax:
		l.add(IssueCatchingUp, Fatal, self, "catching up: %d entries behind", entries)
	}
}

// addFull adds what is full, or has diverged elsewhere.
func (w *Watch) addFull(l *list) {
	self := w.Store.Member()
	if w.Store.Space.Writable() != nil {
		free, reserve := w.Store.Space.Free()
		g := serious
		if w.Group.Crowded() && w.Group.Leads() {
			g = Fatal
		}
		l.add(IssueDisk, g, self, "the disk is nearly full: %s free, %s reserved", statelimit.SizeText(free),
			statelimit.SizeText(reserve))
	}
	if divergence, diverged := w.divergence(w.Group); diverged && divergence.Right {
		for _, id := range divergence.Others {
			l.add(IssueDiverged, serious, id, "%s",
				w.divergenceText(compare.Divergence{Index: divergence.Index, Others: []uint64{id},
					Right: true}))
		}
	}
	if text := w.StateLimit.FullnessIssue(); text != "" {
		l.add(IssueFull, serious, self, "%s", text)
	}
	if text := w.StateLimit.MemoryIssue(); text != "" {
		l.add(IssueMemory, noteworthy, self, "%s", text)
	}
}

// addOthers adds what is about other servers and clients.
func (w *Watch) addOthers(l *list) {
	self := w.Store.Member()
	unlike := w.Store.Peers.Unlike()
	for _, m := range w.Store.Members() {
		if text := unlike[m.ID]; text != "" {
			l.add(IssueUnlike, noteworthy, m.ID,
				"server %s was given other settings, which should be the same on all: %s", m.DisplayName(),
				text)
		}
	}
	for _, text := range w.strained() {
		l.add(IssueLimits, noteworthy, self, "%s", text)
	}
	if w.Group.Leads() {
		for _, m := range w.Store.Members() {
			if !m.Learner && !m.Active && m.ID != self {
				l.add(IssueSilent, noteworthy, m.ID, "server %s is not heard of", m.DisplayName())
			}
		}
	}
}

// strained lists the clients' limits that are reached, or were a moment ago. Clients within them notice nothing.
func (w *Watch) strained() []string {
	var texts []string
	if w.Connections != nil { // which are made behind the group
		texts = w.Connections.Strained()
	}
	if at := w.Store.Peers.Crowded(); !at.IsZero() && time.Since(at) < listen.StrainedFor {
		texts = append(texts,
			"there were too many connections to the address for other servers: strangers' made room for new ones")
	}
	if _, waiting := w.Group.RequestBytes(); waiting > 0 {
		texts = append(texts, "clients bring more than is worked off: the streams of some are not read")
	}
	return texts
}

const (
	// watchPeriod is the period at which a server looks at its own readiness. Before it was ready it looks more often:
	// every startPeriod at first, then the more rarely the longer it takes, up to lateStartPeriod.
	watchPeriod     = 200 * time.Millisecond
	startPeriod     = 5 * time.Millisecond
	lateStartPeriod = 50 * time.Millisecond
	// probePeriod is the period at which a follower asks for the leader's commit index.
	probePeriod = time.Second
	// leaderPoll is the interval of polling for changes without an event: that there is a leader, what other servers
	// have heard.
	leaderPoll = 20 * time.Millisecond
	// longElection is the time without a leader after which a server that was ready is not ready.
	longElection = time.Second
	// quietStart is the time after the start from which on a server logs why it is not ready.
	quietStart = 3 * time.Second
	// sayAgain is the period at which a server that is not ready logs why.
	sayAgain = time.Minute
)

// noLeaderText reports how many servers are missing, as far as this one knows.
func (w *Watch) noLeaderText() string {
	voters, reached := 0, 0
	for _, m := range w.Store.Members() {
		if m.Learner {
			continue
		}
		if voters++; m.Connected {
			reached++
		}
	}
	if voters == 1 {
		return "no leader"
	}
	text := fmt.Sprintf("no leader: %d of %d servers with a vote can be reached, %d are needed", reached,
		voters, voters/2+1)
	if !w.Store.Peers.Enabled() {
		text += "; this server was started without --listen-peer"
	}
	return text
}

// Sources have the state that a Watch looks at. Group and Store are set before the first look, the rest before Start.
type Sources struct {
	*calls.Runner
	Store       *raftstore.Store
	Connections *listen.Connections
	StateLimit  *statelimit.Limit
	Discovery   *discovery.Service
	Leaving     *atomic.Bool
	Err         func() error // the reason for which the server cannot go on
	Logger      *slog.Logger
	Database    string
	Replaced
}

// Replaced is in the place of what a Watch asks otherwise, in tests.
type Replaced struct {
	Lag             func(*group.Group) (entries uint64, known bool)
	Divergence      func(*group.Group) (compare.Divergence, bool)
	Mute            func(*group.Group) bool
	ContactPatience time.Duration
}

// Watch finds out about the readiness, and shows it when it changes. It serves Ydb.Monitoring.V1.MonitoringService
// (surface.md §5).
type Watch struct {
	Ydb_Monitoring_V1.UnimplementedMonitoringServiceServer
	Sources
	contact    contact
	silence    silence
	lag        func(*group.Group) (entries uint64, known bool)
	divergence func(*group.Group) (compare.Divergence, bool)
	mute       func(*group.Group) bool
	shown      atomic.Pointer[shown]
	health     *health.Server
	services   []string

	ctx     context.Context // of the goroutines
	stop    context.CancelFunc
	ended   sync.WaitGroup
	reached chan struct{}
}

// New returns a Watch that does not look yet.
func New(sources Sources) *Watch {
	w := &Watch{Sources: sources, reached: make(chan struct{}), lag: (*group.Group).Lag,
		divergence: (*group.Group).Divergence, mute: (*group.Group).Mute}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if sources.Lag != nil {
		w.lag = sources.Lag
	}
	if r := sources.Replaced; r.Divergence != nil {
		w.divergence = r.Divergence
	}
	if sources.Mute != nil {
		w.mute = sources.Mute
	}
	return w
}

// Reached is closed when the server is ready for the first time.
func (w *Watch) Reached() <-chan struct{} { return w.reached }

// Stopped is closed by Stop.
func (w *Watch) Stopped() <-chan struct{} { return w.ctx.Done() }

// Answer has health checks answered by h, for the server as a whole and for each service.
func (w *Watch) Answer(h *health.Server, services []string) {
	w.health, w.services = h, services
	w.showHealth(issueStarting)
}

// Start starts the goroutines.
func (w *Watch) Start() {
	w.ended.Go(func() { w.lookOut(w.ctx) })
	w.ended.Go(func() { w.probe(w.ctx) })
}

// Stop ends the goroutines. From then on the server shows that it stops.
func (w *Watch) Stop() {
	w.stop()
	w.ended.Wait()
	w.shown.Store(&shown{worst: Issue{Kind: IssueStopping, Gravity: Fatal, Text: "stopping", Member: w.Store.Member()}})
}

// lookOut looks at the readiness and publishes each change.
func (w *Watch) lookOut(ctx context.Context) {
	begun, first, published := time.Now(), true, false
	var told Kind
	var toldAt, leaderless time.Time
	for {
		w.contact.note(w.Group.Led())
		w.silence.note(w.mute(w.Group))
		all := w.Issues()
		now := w.showable(worstOf(all), &leaderless)
		// the two kinds of issues do not end by themselves
		if first && (now.Gravity != Fatal || now.Kind == IssueDisk || now.Kind == IssueDiverged) {
			if !published {
				published = true
				w.Discovery.Publish()
			}
			if w.Store.Peers.Announced() && w.Discovery.Complete() {
				first = false
				w.showHealth(now)
				close(w.reached)
			} else {
				now = issueIntroducing
			}
		}
		again := now.Gravity == Fatal && time.Since(toldAt) > sayAgain
		if (now.Kind != told || again) && !(first && time.Since(begun) < quietStart) {
			told, toldAt = now.Kind, time.Now()
			w.sayReadiness(now)
		}
		w.showMore(now, all)
		pause := watchPeriod
		if first {
			pause = min(max(time.Since(begun)/16, startPeriod), lateStartPeriod)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// showable is the worst Issue, except that an election of a server that is shown as ready is not shown before it
// takes long: clients wait it out, and health checks would only send them about. A server that is not ready
// stays so until it has a leader.
func (w *Watch) showable(now Issue, leaderless *time.Time) Issue {
	if now.Kind != IssueNoLeader || w.shown.Load().worst.Gravity == Fatal {
		*leaderless = time.Time{}
		return now
	}
	if leaderless.IsZero() {
		*leaderless = time.Now()
	}
	if time.Since(*leaderless) < longElection {
		return Issue{}
	}
	return now
}

// Worst returns the first fatal issue, or the zero issue.
func (w *Watch) Worst() Issue { return worstOf(w.Issues()) }

func worstOf(issues []Issue) Issue {
	for _, i := range issues {
		if i.Gravity == Fatal {
			return i
		}
	}
	return Issue{}
}

func (w *Watch) sayReadiness(worst Issue) {
	w.showHealth(worst)
	if worst.Gravity != Fatal {
		w.Logger.Info("ready")
	} else {
		w.Logger.Warn("not ready", "reason", worst.Text)
	}
}

// shown is the answer to health checks.
type shown struct {
	worst Issue   // if it is not fatal, the server is ready
	also  []Issue // that do not keep the server from serving
}

// issueStarting is shown before it was looked for issues.
var issueStarting = Issue{Kind: "STARTING", Gravity: Fatal, Text: "starting"}

// issueIntroducing is shown until this server and those that it is connected to know each other's addresses.
var issueIntroducing = Issue{Kind: issueStarting.Kind, Gravity: Fatal,
	Text: "starting: not all addresses of the other servers are known yet"}

// showMore updates the answer, except for whether the server is ready, which showHealth changes.
func (w *Watch) showMore(now Issue, all []Issue) {
	worst := w.shown.Load().worst
	if (now.Gravity == Fatal) == (worst.Gravity == Fatal) {
		worst = now
	}
	w.shown.Store(&shown{worst: worst, also: slices.DeleteFunc(all,
		func(i Issue) bool { return i.Gravity == Fatal })})
}

// showHealth answers health checks from now on, by gRPC for the server as a whole and for each service, and
// by HTTP.
func (w *Watch) showHealth(worst Issue) {
	w.shown.Store(&shown{worst: worst})
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if worst.Gravity != Fatal {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	w.health.SetServingStatus("", status)
	for _, name := range w.services {
		w.health.SetServingStatus(name, status)
	}
}

// probe keeps asking how far the leader is, where this server does not lead.
func (w *Watch) probe(ctx context.Context) {
	for ctx.Err() == nil {
		pause := leaderPoll
		if w.Group.Led() && !w.Group.Leads() {
			bounded, cancel := context.WithTimeout(ctx, probePeriod)
			_ = w.Group.CatchUp(bounded) // only the index that it hears counts
			cancel()
			pause = probePeriod
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// Divergence describes servers with different states for people; "" if all known states are the same.
func (w *Watch) Divergence() string {
	if d, found := w.divergence(w.Group); found {
		return w.divergenceText(d)
	}
	return ""
}

// divergenceText is a divergence for people. What is to be done is in docs/cluster.md.
func (w *Watch) divergenceText(d compare.Divergence) string {
	others := strings.Join(w.Store.Members().NamesOf(d.Others), ", ")
	if d.Right {
		return fmt.Sprintf("diverged: as of entry %d the state of %s is not the one that the majority of the servers has; replace it", d.Index, others)
	}
	return fmt.Sprintf("diverged: as of entry %d the states of this server and of %s differ, and no majority of the servers has one state; "+
		"decide which of them is to go on, and replace the others", d.Index, others)
}

// Shown is the readiness that gRPC's health service and HTTP report. During an election it stays as before.
func (w *Watch) Shown() State {
	worst := w.shown.Load().worst
	return State{Ready: worst.Gravity != Fatal, Reason: worst.Text}
}

// issueKinds lists the kinds that are exported even without an issue.
var issueKinds = []Kind{IssueStopping, IssueFailed, IssueNoMember, IssueNoLeader, IssueKeptOut,
	IssueReplaying, IssueCatchingUp, IssueDisk, IssueDiverged, IssueSilent, IssueFull, IssueMemory, IssueMute,
	IssueUnlike, IssueLimits}

// ShownIssues returns all kinds of issues, and whether there is one.
func (w *Watch) ShownIssues() map[string]bool {
	shown := w.shown.Load()
	found := make(map[string]bool)
	for _, kind := range issueKinds {
		found[string(kind)] = false
	}
	for _, i := range append(shown.also[:len(shown.also):len(shown.also)], shown.worst) {
		if i.Kind != "" {
			found[string(i.Kind)] = true
		}
	}
	return found
}

// Lines returns what the HTTP listener answers: whether the server is ready, or why not, and what else is wrong.
func (w *Watch) Lines() (ready bool, lines []string) {
	now := w.shown.Load()
	if now == nil {
		now = &shown{worst: issueStarting}
	}
	lines = []string{"ready"}
	if now.worst.Gravity == Fatal {
		lines = []string{"not ready: " + now.worst.Text}
	}
	for _, i := range now.also {
		lines = append(lines, "also: "+i.Text)
	}
	return now.worst.Gravity != Fatal, lines
}
