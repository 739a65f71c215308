package model

import (
	"github.com/coordd/coordd/coordination"
)

// clientMessage translates a client's message for the rings.
func clientMessage(r Request) coordination.ClientMessage {
	m := coordination.ClientMessage{ReqID: r.ReqID, Opaque: r.Opaque}
	switch r.Kind {
	case Start:
		m.Kind = coordination.ClientStart
		m.Start = &coordination.AttachRequest{Path: r.Path, Session: coordination.SessionID(r.Session),
			SeqNo: r.SeqNo, TimeoutMillis: r.TimeoutMillis, Description: r.Description,
			ProtectionKey: r.ProtectionKey}
		return m
	case Stop:
		m.Kind = coordination.ClientStop
		return m
	case Ping:
		m.Kind = coordination.ClientPing
		return m
	case Pong:
		m.Kind = coordination.ClientPong
		return m
	case Empty:
		m.Kind = coordination.ClientEmpty
		return m
	case Unsupported:
		m.Kind = coordination.ClientUnsupported
		return m
	}
	m.Kind = coordination.ClientSemaphore
	m.Request = &coordination.Request{Kind: requestKinds[r.Kind], Name: r.Name, Data: []byte(r.Data),
		Count: r.Count, TimeoutMillis: r.TimeoutMillis, Limit: r.Limit, Ephemeral: r.Ephemeral,
		Force: r.Force, IncludeOwners: r.IncludeOwners, IncludeWaiters: r.IncludeWaiters,
		WatchData: r.WatchData, WatchOwners: r.WatchOwners}
	return m
}

var requestKinds = map[Kind]coordination.RequestKind{
	Create: coordination.RequestCreate, Update: coordination.RequestUpdate,
	Delete:  coordination.RequestDelete,
	Acquire: coordination.RequestAcquire, Release: coordination.RequestRelease,
	Describe: coordination.RequestDescribe,
}

// seen translates what a client of the rings has read. Every field is carried over, also those that should be
// empty.
func seen(got coordination.Reply) Reply {
	r := Reply{ReqID: got.ReqID, Session: uint64(got.Session), Opaque: got.Opaque, Done: got.Done,
		WatchAdded: got.WatchAdded, DataChanged: got.DataChanged, OwnersChanged: got.OwnersChanged}
	switch got.Kind {
	case coordination.ReplyStarted:
		r.Kind = Started
	case coordination.ReplyStopped:
		r.Kind = Stopped
	case coordination.ReplyFailure:
		r.Kind = Failure
	case coordination.ReplyPing:
		r.Kind = PingOut
	case coordination.ReplyPong:
		r.Kind = PongOut
	case coordination.ReplyPending:
		r.Kind = Pending
	case coordination.ReplyChanged:
		r.Kind = ChangedBy
	case coordination.ReplyResult:
		r.Kind, r.Status = Result, Success
		for name, kind := range requestKinds {
			if kind == got.Request {
				r.To = name
			}
		}
	}
	if got.Refusal != nil {
		r.Status, r.Text = Status(got.Refusal.Status), got.Refusal.Text
	}
	if d := got.Description; d != nil {
		r.Description = &Description{Name: d.Name, Data: string(d.Data), Count: d.Count, Limit: d.Limit,
			Ephemeral: d.Ephemeral, Owners: seenLinks(&d.Owners), Waiters: seenLinks(&d.Waiters)}
	}
	return r
}

func seenLinks(links *coordination.Links) []LinkDescription {
	var list []LinkDescription
	for l := range links.All() {
		list = append(list, LinkDescription{Order: uint64(l.Order), Session: uint64(l.Session),
			TimeoutMillis: l.TimeoutMillis, Count: l.Count, Data: string(l.Data)})
	}
	return list
}

func seenEnding(e coordination.Ending) Ending {
	switch e {
	case coordination.EndingNone:
		return Open
	case coordination.EndingOK:
		return EndedOK
	case coordination.EndingInvalidStart:
		return InvalidStart
	case coordination.EndingAbandoned:
		return Abandoned
	}
	return "unknown"
}

// sameReplies reports whether a client has read what it should: in the same order, except where a Group
// leaves it open (§3.9: the order of the semaphores of an ended session).
func sameReplies(want, got []Reply) bool {
	if len(want) != len(got) {
		return false
	}
	for i := 0; i < len(want); {
		end := i + 1
		for want[i].Group != 0 && end < len(want) && want[end].Group == want[i].Group {
			end++
		}
		if !sameBlocks(blocks(want[i:end]), got[i:end]) {
			return false
		}
		i = end
	}
	return true
}

// blocks splits messages of one group into those of each block.
func blocks(group []Reply) [][]Reply {
	var split [][]Reply
	for i, r := range group {
		if i == 0 || r.Block != group[i-1].Block {
			split = append(split, nil)
		}
		last := len(split) - 1
		split[last] = append(split[last], r)
	}
	return split
}

// sameBlocks tries every order of the blocks.
func sameBlocks(want [][]Reply, got []Reply) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	for i, block := range want {
		if !sameInOrder(block, got[:len(block)]) {
			continue
		}
		rest := append(append([][]Reply(nil), want[:i]...), want[i+1:]...)
		if sameBlocks(rest, got[len(block):]) {
			return true
		}
	}
	return false
}

func sameInOrder(want, got []Reply) bool {
	for i := range want {
		if !sameReply(want[i], got[i]) {
			return false
		}
	}
	return true
}

func sameReply(want, got Reply) bool {
	wantDescription, gotDescription := want.Description, got.Description
	if (wantDescription == nil) != (gotDescription == nil) {
		return false
	}
	if wantDescription != nil && !sameDescription(*wantDescription, *gotDescription) {
		return false
	}
	// A ping's number is random; only that it is not 0 can be asked for.
	if want.Kind == PingOut && got.Opaque != 0 {
		got.Opaque = want.Opaque
	}
	want.Description, got.Description = nil, nil
	want.Group, want.Block, want.ticket = 0, 0, 0
	return want == got
}

func sameDescription(want, got Description) bool {
	return want.Name == got.Name && want.Data == got.Data && want.Count == got.Count &&
		want.Limit == got.Limit &&
		want.Ephemeral == got.Ephemeral && sameLinks(want.Owners, got.Owners) &&
		sameLinks(want.Waiters, got.Waiters)
}

func sameLinks(want, got []LinkDescription) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] {
			return false
		}
	}
	return true
}
