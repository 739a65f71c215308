package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

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
	// sees are the folders whose code is in the binary.
	sees map[string]bool
}

// look finds out what is in the trial's binary.
func (t *trial) look() error {
	list := exec.Command("go", "list", "-deps", "-test", "-f", "{{.Dir}}", "./"+t.folder)
	list.Dir = *root
	output, err := list.Output()
	if err != nil {
		return fmt.Errorf("what %s is built of: %w", t.folder, err)
	}
	t.sees = make(map[string]bool)
	for _, folder := range strings.Fields(string(output)) {
		t.sees[folder] = true
	}
	return nil
}

var trials = []trial{
	{name: "transcripts", folder: "conformance", tests: "^TestPure"},
	{name: "model", folder: "conformance/model", tests: "^Test(Model|Resources)$"},
	{name: "entries and stamps", folder: "coordination", tests: "^Test(AnySplit|UsersOfOneEntry|Stamp)"},
	{name: "owners", folder: "coordination", tests: "^Test(SessionOf|Owner|NoOwner)"},
	{name: "limits", folder: "coordination",
		tests: "^Test(State|SetLimits|OwnLimits|NothingStays|NodeBytes)"},
	{name: "marks", folder: "coordination", tests: "^TestMark"},
	{name: "digests", folder: "server/group", tests: "^TestDigest(Verdicts|Majority|Reports|Present)"},
	{name: "condemned directories", folder: "raftstore", tests: "^TestCondemned"},
	{name: "servers that diverge", folder: "server/group",
		tests: "^Test(OnlyMembers|CheckpointsAreAtMarks|MarkedCheckpoint|OpenCheckpoint|MarksWait|DivergedFollower|KilledBefore)"},
	{name: "resources", folder: "coordination", tests: "^Test(Resource|EffectiveProp|ListResources)"},
	{name: "units", folder: "coordination/quota", tests: "^Test"},
	{name: "units of servers", folder: "server/group",
		tests: "^Test(Quanta|Demands|UnsentQuanta|KnownRights)"},
	{name: "inspection", folder: "coordination", tests: "^Test(Inspect|Standing|EndSession|RemoveSemaphore)"},
	{name: "leader changes", folder: "coordination",
		tests: "^Test(Claim|Resume|Held|Repeated|Describe|Stop|StreamLeft|Outcomes|TakeOver|Walk)"},
	{name: "checkpoints", folder: "raftstore",
		tests: "^Test(CheckpointIsDue|WhatACheckpoint|Load|CheckpointsInSteps)"},
	{name: "group", folder: "server/group", tests: "^Test(CheckpointsCount|Replay|ReadIsOver)"},
	{name: "permits and credit", folder: "server/group",
		tests: "^Test(Permit(IsTied|Counts)|StreamBytes|CreditIs|WaitingAcquires|RoomIs|DescriptionsWait)"},
	{name: "connections between servers", folder: "raftstore",
		tests: "^Test(StrangersMakeRoom|CallersInAll)"},
	{name: "memory of clients", folder: "server", tests: "^Test(Lending|EndThat|AnswersThat)"},
	{name: "turns", folder: "raftstore/turn", tests: "^TestUnlock"},
	{name: "who looks on", folder: "server/group", tests: "^TestLeftTurn"},
	{name: "stand-in", folder: "server/standin", tests: "^Test(Clock|NobodyIsReminded|AdvanceEnds|Load)"},
	{name: "faults", folder: "server/standin/faults", tests: "^Test(FailNext|AnswerLost|Filters|Partition)"},
	{name: "pings of a late server", folder: "coordination",
		tests: "^Test(LateTick|HealthyServer|PingIsTaken|PingClock|UnreadStream|Withheld)"},
}

// silence is the simulation of servers whose clocks and networks are as bad as may be. Finding what it is
// there for takes it many histories.
var silence = trial{name: "silence simulation", folder: "server/group", tests: "^TestSilence$"}

// check tries every defect and prints the table of what found it.
func check() error {
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	list, err := mutations()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for i := range trials {
		if err := trials[i].look(); err != nil {
			return err
		}
	}
	fmt.Print("| defect | what it breaks | found by |\n| --- | --- | --- |\n")
	var problems []error
	for i := range list {
		m := &list[i]
		if !match.MatchString(m.name) {
			continue
		}
		found, err := m.hunt(work)
		if err != nil {
			problems = append(problems, err)
			found = "ERROR"
		} else if found == "" {
			problems = append(problems, fmt.Errorf("defect %s survives", m.name))
			found = "NOTHING"
		}
		fmt.Printf("| %s | %s | %s |\n", m.name, m.breaks, found)
	}
	return errors.Join(problems...)
}

// hunt returns what finds the defect, "" if nothing does.
func (m *mutation) hunt(work string) (string, error) {
	overlay, err := m.overlay(work)
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(filepath.Dir(m.path()))
	if err != nil {
		return "", err
	}
	found := ""
	for i := 0; i < len(trials) && found == ""; i++ {
		if !trials[i].sees[folder] {
			continue
		}
		if found, err = m.try(&trials[i], work, overlay); err != nil {
			return "", err
		}
	}
	if found == "" || !m.silence {
		return found, nil
	}
	also, err := m.try(&silence, work, overlay)
	if also == "" || err != nil {
		return "", err
	}
	return found + ", " + also, nil
}

// try returns which tests of a trial find the defect, "" if none does.
func (m *mutation) try(t *trial, work, overlay string) (string, error) {
	binary := filepath.Join(work, "trial.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+t.folder)
	build.Dir = *root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("defect %s does not compile: %w\n%s", m.name, err, output)
	}
	return t.run(binary)
}

// path is where the defective file is.
func (m *mutation) path() string { return filepath.Join(*root, filepath.FromSlash(m.file)) }

// overlay writes what the compiler has to see in place of the file, and returns the name of the list that
// says so.
func (m *mutation) overlay(work string) (string, error) {
	text, err := m.apply(*root)
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.path())
	if err != nil {
		return "", err
	}
	defective := filepath.Join(work, "defective.go")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: defective}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(work, "overlay.json")
	return overlay, errors.Join(os.WriteFile(defective, []byte(text), 0o600),
		os.WriteFile(overlay, list, 0o600))
}

// trialMax bounds a run. A defect that makes the tests hang is found, too.
const trialMax = time.Minute

var failedScript = regexp.MustCompile(`(?m)^ +--- FAIL: TestPure[A-Za-z]*/(\S+)`)

// run returns which of the trial's tests fail, in a few words; "" if none does.
func (t *trial) run(binary string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), trialMax)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.run", t.tests)
	run.Dir = filepath.Join(*root, filepath.FromSlash(t.folder))
	output, err := run.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return t.name + " (they hang)", nil
	case !errors.As(err, &exit):
		return "", fmt.Errorf("run the %s: %w", t.name, err)
	}
	scripts := make(map[string]bool)
	first := ""
	for _, match := range failedScript.FindAllStringSubmatch(string(output), -1) {
		if first == "" {
			first = match[1]
		}
		scripts[match[1]] = true
	}
	switch {
	case first == "" && strings.Contains(string(output), "panic: "):
		return t.name + " (an invariant is broken)", nil
	case first == "":
		return t.name, nil
	case len(scripts) == 1:
		return first, nil
	}
	return fmt.Sprintf("%s and %d more", first, len(scripts)-1), nil
}
