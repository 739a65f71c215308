package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/mutation/plant"
)

//go:embed testdata/*.txt
var testdata embed.FS

var (
	root = flag.String("root", ".", "the top of the repository")
	only = flag.String("run", "", "only the defects whose name matches this expression")
)

func main() {
	flag.Parse()
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// trial is a test binary that may find a defect, and the tests of it that are run.
type trial struct {
	name, folder, tests string
	// about are the folders whose code the tests run. All whose code is in the binary, unless it says less.
	about []string
	// builds marks tests that build themselves, for which they need the sources with the defects.
	builds bool
	// arguments are further ones of the test binary.
	arguments []string
	// most limits a run. A defect that makes the tests hang is found, too.
	most time.Duration
}

// look finds out what is in the trial's binary.
func (t *trial) look() error {
	list := exec.Command("go", "list", "-deps", "-test", "-f", "{{.Dir}}", "./"+t.folder)
	list.Dir = *root
	output, err := list.Output()
	if err != nil {
		return fmt.Errorf("what %s is built of: %w", t.folder, err)
	}
	top, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	for _, folder := range strings.Fields(string(output)) {
		if below, err := filepath.Rel(top, folder); err == nil {
			t.about = append(t.about, filepath.ToSlash(below))
		}
	}
	return nil
}

// trials begin with those of the suite itself; then come the quick ones, and those with clusters last.
var trials = []trial{
	{name: "transcripts", folder: "conformance", tests: "^TestPure",
		about: []string{"coordination", "coordination/codec"}},
	{name: "model", folder: "conformance/model", tests: "^Test(Model|Resources)$",
		about: []string{"coordination", "coordination/codec"}},
	{name: "entries and stamps", folder: "coordination", tests: "^Test(AnySplit|UsersOfOneEntry|Stamp)"},
	{name: "ages", folder: "coordination",
		tests: "^Test(LogClock|DetachedSession|ShortReigns|Absen|AgesEnd|WaitGoesOn|HandOver|LeaderGoesOn|" +
			"RestoredHand|QuietEnds|CalmIs|TimeBefore)"},
	{name: "owners", folder: "coordination", tests: "^Test(SessionOf|Owner|NoOwner)"},
	{name: "limits", folder: "coordination",
		tests: "^Test(State|SetLimits|OwnLimits|NothingStays|NodeBytes|Quota|Reserve)"},
	{name: "marks", folder: "coordination", tests: "^TestMark"},
	{name: "resources", folder: "coordination", tests: "^Test(Resource|EffectiveProp|ListResources)"},
	{name: "inspection", folder: "coordination", tests: "^Test(Inspect|Standing|EndSession|RemoveSemaphore)"},
	{name: "leader changes", folder: "coordination",
		tests: "^Test(Claim|Resume|Held|Repeated|Describe|StrictDescribe|Stop|StreamLeft|Outcomes|TakeOver|Walk|" +
			"Unlogged|Robbery|StartThat|Earlier|RestoredState)"},
	{name: "versions", folder: "coordination",
		tests: "^Test(Versions|TwoWriters|ChangesDoNot|Authors|UpdateData|FormerV)"},
	{name: "company in the log", folder: "coordination", tests: "^Test(WhatMayWait|WaitForCompany)"},
	{name: "pings of a late server", folder: "coordination",
		tests: "^Test(LateTick|HealthyServer|PingIsTaken|PingClock|UnreadStream|Withheld|EndedFront|TickMakes|PutBack|" +
			"ChangedBefore)"},
	{name: "timers of streams", folder: "server/group/streams", tests: "^Test(TimerWithout|SilentEnd)"},
	{name: "units", folder: "coordination/quota", tests: "^Test"},
	{name: "who looks on", folder: "server/group", tests: "^TestLeftTurn"},
	{name: "names on the relay", folder: "server/group", tests: "^TestNameThatCannot", most: time.Minute},
	{name: "units of servers", folder: "server/group/limiter", tests: "^Test(Quanta|Demands|KnownRights)"},
	{name: "digests", folder: "server/group/compare", tests: "^TestDigest(Verdicts|Majority|Reports|Present)"},
	{name: "what is written by hand", folder: "server/wire", tests: "^Test"},
	{name: "condemned directories", folder: "raftstore", tests: "^TestCondemned"},
	{name: "data directories", folder: "raftstore/datadir", tests: "^Test"},
	{name: "traces of a crash", folder: "raftstore",
		tests: "^Test(CommitIsDurable|InstallBeside|StopEnds|CrashWhileRestoring|RemovedFiles|.*CrashImages)"},
	{name: "checkpoints in images of crashes", folder: "raftstore/checkpoint", tests: "^Test", most: time.Minute},
	{name: "the log in images of crashes", folder: "raftstore/wal",
		tests: "^Test(Attack|Batch|Refused|CrashImages|MissingFiles|FlippedBits|EveryFailure|CutWithin)"},
	{name: "memberships", folder: "raftstore",
		tests: "^Test(RemovalIsDurable|LogProves|MembershipHist|RandomMembership|PromotionIs|SealingNeeds|RosterOf)"},
	{name: "lists of members", folder: "raftstore/membership", tests: "^Test"},
	{name: "emptied members", folder: "raftstore", tests: "^Test(EmptiedBefore|IncarnationIs)"},
	{name: "turns", folder: "internal/turn", tests: "^TestUnlock"},
	{name: "connections between servers", folder: "raftstore",
		tests: "^Test(LatestHeader|Awaited|QuestionsOf)"},
	{name: "callers of the port for servers", folder: "raftstore/peers", tests: "^Test"},
	{name: "connections", folder: "internal/netguard", tests: "^Test"},
	{name: "checkpoints", folder: "raftstore",
		tests: "^Test(CheckpointIsDue|WhatACheckpoint|Load)"},
	{name: "budgets", folder: "internal/budget", tests: "^Test"},
	{name: "credit", folder: "server/group", tests: "^Test(CreditIs|WaitingAcquires|RoomIs)"},
	{name: "permits", folder: "server/group/streams",
		tests: "^Test(Permit(IsTied|Counts|sAreDropped)|StreamBytes|DescriptionsWait|UnsentQuanta|OneRelayOf)"},
	{name: "the order of answers", folder: "server/group/streams", tests: "^Test(AnswersKeep|MuchIsSaid)"},
	{name: "memory of clients", folder: "server", tests: "^Test(EndThat|AnswersThat)"},
	{name: "memory that is lent", folder: "server", tests: "^TestLargeAnswersAreGivenBack$"},
	{name: "servers that start", folder: "server", tests: "^Test(FirstListIsComplete|RightsOfAToken)"},
	{name: "readiness", folder: "server/readiness", tests: "^TestElectionIsHidden"},
	{name: "calls without a leader", folder: "server", tests: "^TestEveryMethodIsAnswered$"},
	{name: "headers", folder: "server", tests: "^Test(DatabaseHeader|BehindAProxy)"},
	{name: "group", folder: "server/group",
		tests: "^Test(CheckpointsCount|Replay|ReadIsOver|RequestsGather|RefusedStays|RepeatedCallIs|SilenceThat)"},
	{name: "rare events", folder: "server/group/events", tests: "^Test"},
	{name: "history", folder: "server/history", tests: "^Test"},
	{name: "shares", folder: "server/share", tests: "^Test"},
	{name: "what a client may take", folder: "server/listen",
		tests: "^Test(OwnerHas|WhoseCall|Flood|WhoKeeps|TurnsOf|HTTPNewest|SentFrames)"},
	{name: "wrong passwords", folder: "server/auth", tests: "^Test(BackOff|AttemptsAre|WaitingPairs|Impossible)"},
	{name: "shared calls", folder: "server", tests: "^Test(UnknownCallers|LargeRequest|UsersShare)"},
	{name: "stand-in", folder: "server/standin", tests: "^Test(Clock|NobodyIsReminded|AdvanceEnds|Load)"},
	{name: "faults", folder: "server/standin/faults",
		tests: "^Test(FailNext|AnswerLost|Filters|Partition|FaultsThatMiss)"},
	{name: "texts of servers", folder: "cmd/coordd", tests: "^TestHostileServer$", most: time.Minute},
	{name: "servers that diverge", folder: "server/group",
		tests: "^Test(OnlyMembers|CheckpointsAreAtMarks|MarkedCheckpoint|OpenCheckpoint|MarksWait|" +
			"DivergedFollower|KilledBefore)"},
	{name: "linear turns", folder: "conformance/rings", tests: "^TestTurnsAreLinear$", builds: true},
}

// silence is the simulation of servers whose clocks and networks are as bad as may be. Finding what it is
// there for takes it many histories: the rarest defect shows in one of 1,200.
var silence = trial{name: "silence simulation", folder: "server/group/streams",
	tests: "^TestSilence(OfShortReigns)?$", arguments: []string{"-silence-seeds=1500"}}

// check tries every defect and prints the table of what found it.
func check() error {
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	list, err := plant.Read(testdata, "testdata")
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(d plant.Defect) bool { return !match.MatchString(d.Name) })
	work, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	began := time.Now()
	if err := prepare(work, list); err != nil {
		return err
	}
	prepared := time.Since(began)
	fmt.Print("| defect | what it breaks | found by |\n| --- | --- | --- |\n")
	var problems []error
	for i, result := range sideBySide(len(list), func(i int) result { return hunt(&list[i], work) }) {
		found := result.found
		if result.err != nil {
			problems = append(problems, result.err)
			found = "ERROR"
		} else if found == "" {
			problems = append(problems, fmt.Errorf("defect %s survives", list[i].Name))
			found = "NOTHING"
		}
		fmt.Printf("| %s | %s | %s |\n", list[i].Name, list[i].Breaks, found)
	}
	fmt.Fprintf(os.Stderr, "mutation: found %d of %d defects in %s, %s of it before the first\n",
		len(list)-len(problems), len(list), time.Since(began).Round(time.Second), prepared.Round(time.Second))
	return errors.Join(problems...)
}

// prepare builds the trials with the defects in them, and wants none to find anything as long as no defect is
// in force.
func prepare(work string, list []plant.Defect) error {
	replace, err := plant.All(*root, work, list)
	if err != nil {
		return err
	}
	overlay, err := plant.Overlay(work, replace)
	if err != nil {
		return err
	}
	var folders []string
	for i := range trials {
		if trials[i].about == nil {
			if err := trials[i].look(); err != nil {
				return err
			}
		}
		if trials[i].builds {
			if err := copySources(*root, work, trials[i].about, replace); err != nil {
				return err
			}
		}
		folders = append(folders, "./"+trials[i].folder)
	}
	slices.Sort(folders)
	build := exec.Command("go", append([]string{"test", "-c", "-vet=off", "-overlay", overlay,
		"-o", work + string(filepath.Separator)}, slices.Compact(folders)...)...)
	build.Dir = *root
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the trials: %w\n%s", err, output)
	}
	all := []*trial{&silence}
	for i := range trials {
		all = append(all, &trials[i])
	}
	var problems []error
	for _, err := range sideBySide(len(all), func(i int) (err error) {
		all[i].most, err = all[i].rehearse(work)
		return err
	}) {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// rehearse wants the trial's tests to pass without a defect, and returns the limit with one: so much longer than now
// that reaching it is a hang.
func (t *trial) rehearse(work string) (time.Duration, error) {
	began := time.Now()
	healthy := t.run(work, "", rehearsalMax)
	if healthy.hangs || healthy.found != "" {
		return 0, fmt.Errorf("%s: they fail without a defect: %+v", t.name, healthy)
	}
	return 3*time.Since(began) + 5*time.Second, healthy.err
}

// rehearsalMax limits the tests of a trial without a defect, however busy the machine is.
const rehearsalMax = 10 * time.Minute

// sideBySide does n things, as many at once as there are processors, and yields what comes of each, in order.
func sideBySide[R any](n int, do func(int) R) iter.Seq2[int, R] {
	results := make([]chan R, n)
	for i := range results {
		results[i] = make(chan R, 1)
	}
	go func() {
		busy := make(chan struct{}, runtime.GOMAXPROCS(0))
		for i := range results {
			busy <- struct{}{}
			go func() {
				results[i] <- do(i)
				<-busy
			}()
		}
	}()
	return func(yield func(int, R) bool) {
		for i, result := range results {
			if !yield(i, <-result) {
				return
			}
		}
	}
}

// result names the test that found a defect, or "", or has the reason why that is not known.
type result struct {
	found string
	hangs bool // found is not known because the tests took too long
	err   error
}

// hunt tries the defect.
func hunt(d *plant.Defect, work string) result {
	var found result
	for i := 0; i < len(trials) && found == (result{}); i++ {
		if slices.Contains(trials[i].about, path.Dir(d.File)) {
			found = trials[i].try(work, d.Name)
		}
	}
	if found.found == "" || !d.Silence {
		return found
	}
	also := silence.try(work, d.Name)
	if also.found == "" && also.err == nil {
		also.err = fmt.Errorf("defect %s is found by %s, but not by the %s", d.Name, found.found, silence.name)
	}
	if also.err != nil {
		return also
	}
	return result{found: found.found + ", " + also.found}
}

var failedScript = regexp.MustCompile(`(?m)^ +--- FAIL: TestPure[A-Za-z]*/(\S+)`)

// try runs the trial with a defect. Tests that take too long may have been kept waiting by other programs:
// they hang if they do so again, measured by their present duration without the defect.
func (t *trial) try(work, defect string) result {
	found := t.run(work, defect, t.most)
	if !found.hangs {
		return found
	}
	most, err := t.rehearse(work)
	if err != nil {
		return result{err: err}
	}
	if found = t.run(work, defect, most); found.hangs {
		return result{found: t.name + " (they hang)"}
	}
	return found
}

// run returns which of the trial's tests, in a few words, find the defect with this name.
func (t *trial) run(work, defect string, most time.Duration) result {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	run := exec.CommandContext(ctx, filepath.Join(work, path.Base(t.folder)+".test"),
		append([]string{"-test.run", t.tests}, t.arguments...)...)
	run.Dir = filepath.Join(*root, filepath.FromSlash(t.folder))
	if t.builds {
		run.Dir = filepath.Join(work, copies, filepath.FromSlash(t.folder))
	}
	run.Env = append(os.Environ(), plant.Variable+"="+defect)
	output, err := run.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return result{}
	case ctx.Err() != nil:
		return result{hangs: true}
	case !errors.As(err, &exit):
		return result{err: fmt.Errorf("run the %s: %w", t.name, err)}
	}
	return result{found: t.failed(string(output))}
}

// failed returns the names of the trial's tests that failed.
func (t *trial) failed(output string) string {
	scripts := make(map[string]bool)
	first := ""
	for _, match := range failedScript.FindAllStringSubmatch(output, -1) {
		if first == "" {
			first = match[1]
		}
		scripts[match[1]] = true
	}
	switch {
	case first == "" && strings.Contains(output, "panic: "):
		return t.name + " (an invariant is broken)"
	case first == "":
		return t.name
	case len(scripts) == 1:
		return first
	}
	return fmt.Sprintf("%s and %d more", first, len(scripts)-1)
}
