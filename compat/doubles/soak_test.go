package doubles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
)

const (
	// soakVariable sets the duration of TestLeaderChanges; `make doubles-soak` sets 30 minutes.
	soakVariable = "DOUBLES_SOAK"
	briefSoak    = 12 * time.Second
	// leastPerSecond is the least number of answered requests of each session at work, else the run shows nothing.
	leastPerSecond = 2
	// lockPatience is longer than it takes until the session of a client that has crashed gives its lock
	// back.
	lockPatience = 2 * time.Minute
)

// ofAKill are the states that a right server brings an SDK to as well when it is killed under it, and why.
// They count as explained only if that has happened, and are counted.
var ofAKill = map[FailureState]string{
	CPPBansEndpoint: "a stream to a process that dies cannot end with OK",
	JavaPessimizes:  "a stream to a process that dies cannot end with OK",
	JavaStaysBroken: "the SDK recovers from one break, whatever breaks its stream",
	JavaLost:        "the SDK tries for 5 s, of which its channel's pauses may take all",
	// .NET's has the same name
	RustEndsOnBreak:    "the SDK opens no second stream, whatever breaks the first",
	DotNetHangsInStart: "the SDK awaits SessionStarted without end when its stream breaks before that",
	goClosed:           "the SDK gives a session up whose stream breaks under its start",
	goExpired:          "the SDK did not find another server within the session's timeout",
}

// TestLeaderChanges is rule 8: all doubles and the Go SDK work on three servers, of which another leads every
// now and then, and none notices. Now and then the leader or a follower is killed, and comes back: only its
// own clients may notice. One of each SDK is at home on each server, and the three fight for a lock.
func TestLeaderChanges(t *testing.T) {
	lasts := briefSoak
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", soakVariable, err)
		}
	}
	program, goVersion := buildGoLoad(t)
	servers := startCluster(t)
	path := node(t, dial(t, servers[0].Address))
	do(t, begin(t, CPP, dial(t, servers[0].Address), path), Create(goShared, goSharedMost))

	working, cancel := context.WithCancel(t.Context())
	defer cancel()
	// What is under way when the time is over has time to end.
	ending, end := context.WithTimeout(t.Context(), lasts+faultsPatience+time.Minute)
	defer end()
	f := newFaults(servers)
	begun := time.Now()
	var programs []*goLoad
	for i := range servers {
		programs = append(programs, startGoLoad(t, program, i, f, path))
	}
	var running sync.WaitGroup
	var workers []*worker
	for _, sdk := range All() {
		for i := range servers {
			w := &worker{t: t, sdk: sdk, home: i, node: path, faults: f, lock: "lock of " + sdk.SDK,
				watches: sdk.SDK != Rust.SDK, states: make(map[FailureState]int)}
			workers = append(workers, w)
			running.Go(func() { w.run(working, ending) })
		}
	}
	f.run(t, working, lasts)
	took := time.Since(begun)
	cancel()
	for _, l := range programs {
		l.finish()
	}
	running.Wait()
	checker := begin(t, CPP, dial(t, servers[0].Address), path)
	checked := 0
	for _, l := range programs {
		checked += l.check(checker)
	}

	killedLeaders, killedFollowers, transfers := f.count()
	if killedLeaders == 0 || killedFollowers == 0 || transfers == 0 {
		t.Errorf("void: %d leaders and %d followers were killed, and %d have handed over", killedLeaders,
			killedFollowers, transfers)
	}
	about := fmt.Sprintf("%d hand-overs, the leader killed %d times and a follower %d times in %v", transfers,
		killedLeaders, killedFollowers, took.Round(time.Second))
	var parts []part
	for _, sdk := range All() {
		p := part{name: sdk.SDK, version: sdk.Version, result: "double", states: make(map[FailureState]int),
			least: math.Inf(1)}
		var tenures []tenure
		for _, w := range workers {
			if w.sdk.SDK != sdk.SDK {
				continue
			}
			p.add(w.sessions, w.moves, w.states)
			p.count(w.answered, took)
			tenures = append(tenures, w.tenures...)
		}
		if err := checkTenures(tenures, func(string) uint64 { return 1 }); err != nil {
			t.Errorf("%s: %v", sdk.SDK, err)
		}
		parts = append(parts, p)
	}
	golang := part{name: goSDK, version: goVersion, result: "passed", states: make(map[FailureState]int),
		least: math.Inf(1)}
	var tenures []tenure
	for _, l := range programs {
		golang.add(l.sessions, l.moves, l.states)
		for _, n := range l.operations {
			golang.count(n, took)
		}
		tenures = append(tenures, l.tenures...)
	}
	if err := checkTenures(tenures, goLimit); err != nil {
		t.Errorf("%s: %v", goSDK, err)
	}
	parts = append(parts, golang)
	for _, p := range parts {
		if p.least < leastPerSecond {
			t.Errorf("void: %s had %.1f requests a second answered in one of its sessions", p.name, p.least)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%s; %d acknowledged updates of ended sessions read back\n\n", about, checked)
	table.WriteString("| SDK | sessions | streams to another server | requests | requests a second, each at least | states of failure |\n" +
		"| --- | --- | --- | --- | --- | --- |\n")
	for _, p := range parts {
		if t.Failed() {
			p.result = "FAILED"
		}
		fmt.Fprintf(&table, "| %s %s | %d | %d | %d | %.0f | %s |\n", p.name, p.version, p.sessions, p.moves,
			p.requests, p.least, cmp.Or(strings.Join(p.notes(), "; "), "none"))
		note := append([]string{fmt.Sprintf("%s, %.0f requests a second and more of each", about, p.least)},
			p.notes()...)
		record(p.name, p.version, "rule 8: leader changes", "three servers", p.result,
			strings.Join(note, "; "))
	}
	t.Log(table.String())
}

// part is an SDK's part in the soak.
type part struct {
	name, version, result string
	sessions, moves       int
	requests              int64
	least                 float64 // requests a second of the session at work that had the fewest
	states                map[FailureState]int
}

func (p *part) add(sessions, moves int, states map[FailureState]int) {
	p.sessions, p.moves = p.sessions+sessions, p.moves+moves
	for state, n := range states {
		p.states[state] += n
	}
}

// count counts the requests of one that was at work.
func (p *part) count(requests int64, took time.Duration) {
	p.requests += requests
	p.least = min(p.least, float64(requests)/took.Seconds())
}

// notes are the states of failure, counted and explained.
func (p *part) notes() []string {
	var notes []string
	for _, state := range slices.SortedFunc(maps.Keys(p.states), cmp.Compare[FailureState]) {
		notes = append(notes, fmt.Sprintf("%d times %q when its server was killed: %s", p.states[state],
			state, cmp.Or(ofAKill[state], "NOT EXPLAINED")))
	}
	return notes
}

// worker keeps a double of an SDK at work, and replaces one that has failed.
type worker struct {
	t       *testing.T
	sdk     SDK
	home    int
	node    string
	faults  *faults
	lock    string // of all of the SDK
	watches bool

	answered int64
	sessions int
	moves    int
	states   map[FailureState]int
	tenures  []tenure
}

func (w *worker) String() string { return fmt.Sprintf("%s at home on server %d", w.sdk.SDK, w.home+1) }

// epoch is the origin of times.
var epoch = time.Now()

func (w *worker) run(working, ending context.Context) {
	for working.Err() == nil {
		route := &way{faults: w.faults, home: w.home}
		conn := route.connect(w.t)
		if conn == nil {
			return
		}
		d := Start(ending, w.sdk, conn, w.node)
		w.sessions++
		err := w.work(working, ending, d, route)
		d.Leave()
		_ = conn.Close()
		w.moves += route.moves()
		w.answered += d.Answered()
		states, entered := d.States(), d.Entered()
		for i, state := range states {
			w.states[state]++
			if ofAKill[state] == "" || !route.struck(entered[i]) {
				w.t.Errorf("%s: the server has brought it to %q: %+v", w, state, d.Ending())
			}
		}
		switch {
		case err == nil:
		case !errors.Is(err, ErrLost):
			w.t.Errorf("%s: %v, in %q, attached %d times", w, err, states, d.Attaches())
			return
		case len(states) == 0 && !route.struck(time.Now()):
			w.t.Errorf("%s: given up in no state of failure: %+v", w, d.Ending())
			return
		}
	}
}

// work goes on until the time is over, the session has ended, or the double can go home.
func (w *worker) work(working, ending context.Context, d *Double, route *way) error {
	// lost says whether a call was given up by an SDK that goes on with its session.
	lost := func(err error) bool {
		if !errors.Is(err, ErrLost) {
			return false
		}
		select {
		case <-d.Finished():
			return false
		default:
			return true
		}
	}
	own := fmt.Sprintf("%s %d %d", w.sdk.SDK, w.home, w.sessions)
	// Of the numbers that this session wrote to its own semaphore: the last that was acknowledged, and the
	// last that was sent.
	acknowledged, sent := -1, -1
	if _, err := w.ask(ending, d, Lock(own, Infinite), isAcquired); err != nil && !lost(err) {
		return err
	}
	for working.Err() == nil && !route.away() {
		_, err := w.ask(working, d, Lock(w.lock, uint64(lockPatience.Milliseconds())), isAcquired)
		switch {
		case working.Err() != nil:
			return nil // what still waits ends with its session
		case lost(err):
			continue
		case err != nil:
			return err
		}
		d.Believes()
		held := tenure{name: w.lock, count: 1, from: time.Since(epoch)}
		sent++
		_, err = w.ask(ending, d, Update(own, strconv.Itoa(sent)), isSuccess)
		if err == nil {
			acknowledged = sent
		}
		if err == nil || lost(err) {
			var m *Response
			if m, err = w.ask(ending, d, Describe(own, w.watches), isSuccess); err == nil {
				err = readBack(m, d.Session(), acknowledged, sent)
			}
		}
		held.until = d.Until().Sub(epoch)
		w.tenures = append(w.tenures, held)
		if err != nil && !lost(err) {
			return err
		}
		if _, err := w.ask(ending, d, Release(w.lock), isSuccess); err != nil && !lost(err) {
			return err
		}
	}
	return nil
}

// ask sends a request, and wants a certain answer.
func (w *worker) ask(ctx context.Context, d *Double, r *Request, want func(*Response) bool) (*Response,
	error) {
	answer, err := d.Do(ctx, r)
	if err == nil && !want(answer) {
		err = fmt.Errorf("%v is answered by %v", r, answer)
	}
	return answer, err
}

func isAcquired(m *Response) bool { return m.GetAcquireSemaphoreResult().GetAcquired() }

func isSuccess(m *Response) bool {
	_, body := arm(m.ProtoReflect())
	return statusOf(body) == Ydb.StatusIds_SUCCESS
}

// readBack wants a session to own what it has taken, and nothing of what was acknowledged to be missing.
func readBack(m *Response, session uint64, acknowledged, sent int) error {
	d := m.GetDescribeSemaphoreResult().GetSemaphoreDescription()
	if len(d.GetOwners()) != 1 || d.GetOwners()[0].GetSessionId() != session {
		return fmt.Errorf("session %d does not own what it has taken: %v", session, d)
	}
	got := -1
	if text := string(d.GetData()); text != "" {
		var err error
		if got, err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	if got < acknowledged || got > sent {
		return fmt.Errorf("%s holds %d, where %d was acknowledged and %d sent", d.GetName(), got,
			acknowledged, sent)
	}
	return nil
}
