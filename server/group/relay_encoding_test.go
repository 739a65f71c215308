package group

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// What a leader cannot encode ends the stream that it is for.
func TestMessageThatCannotBeEncoded(t *testing.T) {
	for name, m := range map[string]coordination.Message{
		"refusal": {Kind: coordination.MessageResult, Refusal: &coordination.Refusal{Text: "m\xfcller"}},
		"description": {Kind: coordination.MessageDescribed,
			Description: &coordination.SemaphoreDescription{Name: "m\xfcller"}},
	} {
		p := messageToPB(7, &m)
		if _, err := proto.Marshal(p); err != nil || p.GetStream() != 7 {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if back := messageFromPB(p); back.Kind != coordination.MessageEnd || back.Refusal == nil ||
			back.Description != nil {
			t.Errorf("%s: %+v", name, back)
		}
	}
}

// A name that cannot be encoded ends its own stream. The relay that all streams of the server share goes on.
func TestNameThatCannotBeEncoded(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	good := openSession(t, c.groups[follower], 600_000)
	opened := c.groups[follower].member.opened.Load()
	for name, caller := range map[string]Caller{
		"subject":  {Caller: coordination.Caller{Subject: "m\xfcller"}},
		"identity": {Identity: coordination.Identity{Kind: coordination.IdentityToken, Subject: "m\xfcller"}},
	} {
		bad := openStreamOf(t, c.groups[follower], caller)
		bad.start(testNode.String(), 600_000)
		if r := bad.next(t); r.Kind != coordination.ReplyFailure {
			t.Errorf("%s: %+v", name, r)
		}
	}
	bad := openSession(t, c.groups[follower], 600_000)
	bad.ask(1, &coordination.Request{Kind: coordination.RequestRelease, Name: "m\xfcller"})
	if r := bad.next(t); r.Kind != coordination.ReplyFailure {
		t.Errorf("name of a semaphore: %+v", r)
	}
	good.ask(1, &coordination.Request{Kind: coordination.RequestRelease, Name: "x"})
	if r := good.next(t); r.Kind != coordination.ReplyResult {
		t.Errorf("another client reads %+v", r)
	}
	if now := c.groups[follower].member.opened.Load(); now != opened {
		t.Errorf("the relay was opened %d times meanwhile", now-opened)
	}
}
