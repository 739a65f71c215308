package group

import (
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/relaypb"
)

// TestRefusedStaysOut makes calls that are refused for what is, or is not, there: the log does not grow.
func TestRefusedStaysOut(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, scheme.SplitLoose("/local/n"))
	before := g.applied.Load()
	nora := coordination.Caller{Subject: "nora", Enforced: true}
	for name, build := range map[string]func(coordination.CallID) coordination.Command{
		"no right": func(call coordination.CallID) coordination.Command {
			return &coordination.DropNode{CallID: call, Caller: nora, Path: scheme.SplitLoose("/local/n")}
		},
		"no such path": func(call coordination.CallID) coordination.Command {
			return &coordination.RemoveDirectory{CallID: call, Path: scheme.SplitLoose("/local/none")}
		},
		"no such session": func(call coordination.CallID) coordination.Command {
			return &coordination.EndSession{CallID: call, Node: 1, Session: 1}
		},
		"no such user": func(call coordination.CallID) coordination.Command {
			return &coordination.RemoveUser{CallID: call, Name: "nobody"}
		},
	} {
		answer, err := g.Execute(t.Context(), build)
		if err != nil || answer.OK() || answer.Status == outcome.Unavailable {
			t.Errorf("%s: got %v, %v", name, answer, err)
		}
	}
	if after := g.applied.Load(); after != before {
		t.Errorf("%d entries came into the log", after-before)
	}
}

// A repeated call gets the outcome that it had, although it would be refused now.
func TestRepeatedCallIsNotRefused(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, scheme.SplitLoose("/local/n"))
	drop := &coordination.DropNode{CallID: coordination.CallID{Nonce: 7}, Path: scheme.SplitLoose("/local/n")}
	for _, repeated := range []bool{false, true} {
		answer, err := g.executeForPeer(t.Context(), &relaypb.ExecuteRequest{Command: codec.AppendCommand(nil, drop),
			Repeated: repeated})
		if err != nil || !relaypb.DecodeOutcome(answer).OK() {
			t.Errorf("repeated %v: got %v, %v", repeated, answer, err)
		}
	}
}
