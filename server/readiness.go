package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/statelimit"
)

// Readiness says whether a server can serve clients at the moment.
type Readiness struct {
	Ready bool
	// Reason says why not, for people; empty when Ready.
	Reason string
}

// Readiness is how things stand now. It may be called as soon as Start has returned.
func (s *Server) Readiness() Readiness {
	worst := s.worstIssue()
	return Readiness{Ready: worst.gravity != fatal, Reason: worst.text}
}

// Leads reports whether this server leads and serves as the leader.
func (s *Server) Leads() bool { return s.group.Leads() }

// issueKind tells issues apart for programs.
type issueKind string

const (
	issueStopping   issueKind = "STOPPING"
	issueFailed     issueKind = "FAILED"
	issueNoMember   issueKind = "NOT_A_MEMBER"
	issueNoLeader   issueKind = "NO_LEADER"
	issueKeptOut    issueKind = "KEPT_OUT"
	issueReplaying  issueKind = "REPLAYING"
	issueCatchingUp issueKind = "CATCHING_UP"
	issueDisk       issueKind = "DISK_SPACE"
	issueDiverged   issueKind = "DIVERGED"
	issueSilent     issueKind = "SILENT_SERVER"
	issueMute       issueKind = "MUTE"
	issueUnlike     issueKind = "SETTINGS"
	issueFull       issueKind = "STATE_LIMIT"
	issueMemory     issueKind = "MEMORY"
	issueLimits     issueKind = "LIMITS"
)

// gravity is what an issue means for clients.
type gravity int

const (
	noteworthy gravity = iota // a failure more might be noticed
	serious                   // somebody has to act
	fatal                     // this server cannot serve
)

// issue is something that is not as it should be.
type issue struct {
	kind    issueKind
	gravity gravity
	text    string
	member  uint64 // whose issue it is
}

// behindMax is how many entries a server may be behind the leader and still count as ready: about what is
// under way on a busy cluster.
const behindMax = 1_000

// issues lists what is wrong as far as this server knows, the fatal ones first.
func (s *Server) issues() []issue {
	self := s.store.Member()
	var found []issue
	add := func(kind issueKind, g gravity, member uint64, format string, args ...any) {
		found = append(found, issue{kind, g, fmt.Sprintf(format, args...), member})
	}
	if err := s.Err(); err != nil {
		add(issueFailed, fatal, self, "failed: %v", err)
	}
	if s.leaving.Load() {
		add(issueStopping, fatal, self, "stopping")
	}
	divergence, diverged := s.divergence()
	if diverged && !divergence.Right {
		add(issueDiverged, fatal, self, "%s", s.divergenceText(divergence))
	}
	if out, why := s.store.KeptOut(); out && why != "" {
		add(issueKeptOut, fatal, self,
			"no leader: %s; if all of them were replaced, start this server with --join HOST:PORT of a present "+
				"member, in the place of --initial-cluster", why)
	}
	entries, known := s.lag()
	replayed, of, replaying := s.group.Replaying()
	_, isMember := s.store.Members().Find(self)
	switch {
	case !isMember:
		add(issueNoMember, fatal, self, "not a member of the cluster, as far as this server has heard")
	case replaying:
		add(issueReplaying, fatal, self, "starting: %d of %d entries of the log executed again", replayed, of)
	case !s.group.Led():
		add(issueNoLeader, fatal, self, "%s", s.noLeaderText())
	case s.silence.long() && s.group.Leads():
		add(issueMute, fatal, self,
			"silent to clients: no majority has confirmed lately that this server leads; their sessions wait")
	case s.silence.long():
		add(issueMute, fatal, self,
			"silent to clients: the leader has not confirmed lately that it still leads; the connection to it is slow or broken")
	case !known:
		add(issueNoLeader, fatal, self, "no word from the leader yet")
	case entries > behindMax:
		add(issueCatchingUp, fatal, self, "catching up: %d entries behind", entries)
	}
	if s.store.Writable() != nil {
		free, reserve := s.store.Space()
		g := serious
		if s.group.Crowded() && s.group.Leads() {
			g = fatal
		}
		add(issueDisk, g, self, "the disk is nearly full: %s free, %s reserved", statelimit.SizeText(free),
			statelimit.SizeText(reserve))
	}
	if diverged && divergence.Right {
		for _, id := range divergence.Others {
			add(issueDiverged, serious, id, "%s",
				s.divergenceText(group.Divergence{Index: divergence.Index, Others: []uint64{id},
					Right: true}))
		}
	}
	if text := s.stateLimit.FullnessIssue(); text != "" {
		add(issueFull, serious, self, "%s", text)
	}
	if text := s.stateLimit.MemoryIssue(); text != "" {
		add(issueMemory, noteworthy, self, "%s", text)
	}
	unlike := s.store.Unlike()
	for _, m := range s.store.Members() {
		if text := unlike[m.ID]; text != "" {
			add(issueUnlike, noteworthy, m.ID,
				"server %s was given other settings, which should be the same on all: %s", m.DisplayName(),
				text)
		}
	}
	for _, text := range s.strained() {
		add(issueLimits, noteworthy, self, "%s", text)
	}
	if s.group.Leads() {
		for _, m := range s.store.Members() {
			if !m.Learner && !m.Active && m.ID != self {
				add(issueSilent, noteworthy, m.ID, "server %s is not heard of", m.DisplayName())
			}
		}
	}
	return found
}

// strained says which of the limits of clients are reached, or were a moment ago. Whom they do not concern
// notices nothing.
func (s *Server) strained() []string {
	var texts []string
	if s.connections != nil { // which are made behind the group
		texts = s.connections.Strained()
	}
	if at := s.store.Crowded(); !at.IsZero() && time.Since(at) < listen.StrainedFor {
		texts = append(texts,
			"there were too many connections to the address for other servers: strangers' made room for new ones")
	}
	if _, waiting := s.group.RequestBytes(); waiting > 0 {
		texts = append(texts, "clients bring more than is worked off: the streams of some are not read")
	}
	return texts
}

const (
	// watchPeriod is how often a server looks at its own readiness. Before it was ready it looks more often:
	// every startPeriod at first, then the more rarely the longer it takes, up to lateStartPeriod.
	watchPeriod     = 200 * time.Millisecond
	startPeriod     = 5 * time.Millisecond
	lateStartPeriod = 50 * time.Millisecond
	// probePeriod is how often a server that does not lead asks how far the leader is.
	probePeriod = time.Second
	// leaderPoll is how often it is looked at what nobody announces: that there is a leader, what other
	// servers have heard.
	leaderPoll = 20 * time.Millisecond
	// longElection is how long there may be no leader before a server that was ready counts as not ready.
	longElection = time.Second
	// quietStart is how long a server may take to get ready before it says why it is not.
	quietStart = 3 * time.Second
	// sayAgain is how often a server that is not ready says why.
	sayAgain = time.Minute
)

// noLeaderText says how many servers are missing, as far as this one can tell.
func (s *Server) noLeaderText() string {
	voters, reached := 0, 0
	for _, m := range s.store.Members() {
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
	return fmt.Sprintf("no leader: %d of %d servers with a vote can be reached, %d are needed", reached,
		voters, voters/2+1)
}

// lookout is the goroutines that find out about the readiness and tell others when it changes.
type lookout struct {
	ctx     context.Context // of the goroutines
	stop    context.CancelFunc
	ended   sync.WaitGroup
	reached chan struct{} // closed when the server is ready for the first time
}

func (l *lookout) init() {
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.reached = make(chan struct{})
}

func (s *Server) startLookout() {
	s.lookout.ended.Go(func() { s.lookOut(s.lookout.ctx) })
	s.lookout.ended.Go(func() { s.probe(s.lookout.ctx) })
}

func (s *Server) stopLookout() {
	s.lookout.stop()
	s.lookout.ended.Wait()
}

// lookOut looks at the readiness and tells of each change.
func (s *Server) lookOut(ctx context.Context) {
	begun, first, published := time.Now(), true, false
	var told issueKind
	var toldAt, leaderless time.Time
	for {
		s.contact.note(s.group.Led())
		s.silence.note(s.group.Mute())
		all := s.issues()
		now := s.showable(worstOf(all), &leaderless)
		// the two kinds of issues do not end by themselves
		if first && (now.gravity != fatal || now.kind == issueDisk || now.kind == issueDiverged) {
			if !published {
				published = true
				s.discovery.Publish()
			}
			if s.store.ClientAddressSent() && s.discovery.Complete() {
				first = false
				s.showHealth(now)
				close(s.lookout.reached)
			} else {
				now = issueIntroducing
			}
		}
		again := now.gravity == fatal && time.Since(toldAt) > sayAgain
		if (now.kind != told || again) && !(first && time.Since(begun) < quietStart) {
			told, toldAt = now.kind, time.Now()
			s.sayReadiness(now)
		}
		s.showMore(now, all)
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

// showable is the worst issue, except that an election of a server that is shown as ready is not shown before it
// takes long: clients wait it out, and health checks would only send them about. A server that is not ready
// stays so until it has a leader.
func (s *Server) showable(now issue, leaderless *time.Time) issue {
	if now.kind != issueNoLeader || s.shown.Load().worst.gravity == fatal {
		*leaderless = time.Time{}
		return now
	}
	if leaderless.IsZero() {
		*leaderless = time.Now()
	}
	if time.Since(*leaderless) < longElection {
		return issue{}
	}
	return now
}

// worstIssue is the first fatal issue, the zero issue if there is none.
func (s *Server) worstIssue() issue { return worstOf(s.issues()) }

func worstOf(issues []issue) issue {
	for _, i := range issues {
		if i.gravity == fatal {
			return i
		}
	}
	return issue{}
}

func (s *Server) sayReadiness(worst issue) {
	s.showHealth(worst)
	if worst.gravity != fatal {
		s.config.Logger.Info("ready")
	} else {
		s.config.Logger.Warn("not ready", "reason", worst.text)
	}
}

// shown is what is told about the readiness, whoever asks.
type shown struct {
	worst issue   // if it is not fatal, the server is ready
	also  []issue // that do not keep the server from serving
}

// issueStarting is shown before it was looked for issues.
var issueStarting = issue{kind: "STARTING", gravity: fatal, text: "starting"}

// issueIntroducing is shown until this server and those that it is connected to know each other's addresses.
var issueIntroducing = issue{kind: issueStarting.kind, gravity: fatal,
	text: "starting: not all addresses of the other servers are known yet"}

// showMore keeps up to date what is told besides whether the server is ready, which showHealth changes.
func (s *Server) showMore(now issue, all []issue) {
	worst := s.shown.Load().worst
	if (now.gravity == fatal) == (worst.gravity == fatal) {
		worst = now
	}
	s.shown.Store(&shown{worst: worst, also: slices.DeleteFunc(all,
		func(i issue) bool { return i.gravity == fatal })})
}

// showHealth answers health checks from now on, by gRPC for the server as a whole and for each service, and
// by HTTP.
func (s *Server) showHealth(worst issue) {
	s.shown.Store(&shown{worst: worst})
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if worst.gravity != fatal {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, status)
	}
}

// probe keeps asking how far the leader is, where this server does not lead.
func (s *Server) probe(ctx context.Context) {
	for ctx.Err() == nil {
		pause := leaderPoll
		if s.group.Led() && !s.group.Leads() {
			bounded, cancel := context.WithTimeout(ctx, probePeriod)
			_ = s.group.CatchUp(bounded) // what it has heard is what counts
			cancel()
			pause = probePeriod
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// lag is how many entries this server lacks; known is false as long as the leader has not told how many there
// are.
func (s *Server) lag() (entries uint64, known bool) {
	if s.config.lag != nil {
		return s.config.lag(s.group)
	}
	return s.group.Lag()
}

// divergence is what is known of servers with different states.
func (s *Server) divergence() (group.Divergence, bool) {
	if s.config.divergence != nil {
		return s.config.divergence(s.group)
	}
	return s.group.Divergence()
}

// divergenceText is a divergence for people. What is to be done is in docs/cluster.md.
func (s *Server) divergenceText(d group.Divergence) string {
	others := strings.Join(s.store.Members().NamesOf(d.Others), ", ")
	if d.Right {
		return fmt.Sprintf("diverged: as of entry %d the state of %s is not the one that the majority of the servers has; replace it", d.Index, others)
	}
	return fmt.Sprintf("diverged: as of entry %d the states of this server and of %s differ, and no majority of the servers has one state; "+
		"decide which of them is to go on, and replace the others", d.Index, others)
}
