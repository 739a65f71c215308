package relaypb

import (
	"math"
	"unicode/utf8"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme/outcome"
)

// This file translates between the rings' messages and those of the relay, field by field.

// EncodeForward writes a message of a stream to the leader.
func EncodeForward(stream coordination.StreamID, f *coordination.Forward) *Forward {
	p := &Forward{Stream: uint64(stream), Sequence: uint64(f.Sequence),
		Acknowledged: uint64(f.Acknowledged), Answered: uint64(f.Answered)}
	switch {
	case f.Attach != nil:
		a := f.Attach
		p.Kind = &Forward_Attach{Attach: &Attach{Path: a.Path, Session: uint64(a.Session),
			SeqNo: a.SeqNo, TimeoutMillis: a.TimeoutMillis, Description: a.Description,
			ProtectionKey: []byte(a.ProtectionKey), Nonce: a.Nonce, Subject: a.Caller.Subject,
			Enforced: a.Caller.Enforced, Identity: identityToPB(a.Identity), Client: clientToPB(a.Client)}}
	case f.Request != nil:
		p.Kind = &Forward_Request{Request: requestToPB(f.Request)}
	case f.Roster != nil:
		p.Kind = &Forward_Roster{Roster: rosterToPB(f.Roster)}
	case f.Detach:
		p.Kind = &Forward_Detach{Detach: &Detach{}}
	}
	return p
}

// DecodeForward is the reverse; server is the one that sent p.
func DecodeForward(p *Forward, server uint64) coordination.Forward {
	f := coordination.Forward{Sequence: coordination.Sequence(p.GetSequence()),
		Acknowledged: coordination.Sequence(p.GetAcknowledged()),
		Answered:     coordination.Sequence(p.GetAnswered())}
	switch arm := p.GetKind().(type) {
	case *Forward_Attach:
		a := arm.Attach
		f.Attach = &coordination.AttachRequest{Path: a.GetPath(),
			Session: coordination.SessionID(a.GetSession()), SeqNo: a.GetSeqNo(),
			TimeoutMillis: a.GetTimeoutMillis(), Description: a.GetDescription(),
			ProtectionKey: string(a.GetProtectionKey()), Nonce: a.GetNonce(), Server: server,
			Caller:   coordination.Caller{Subject: a.GetSubject(), Enforced: a.GetEnforced()},
			Identity: identityFromPB(a.GetIdentity()), Client: clientFromPB(a.GetClient())}
	case *Forward_Request:
		f.Request = requestFromPB(arm.Request)
	case *Forward_Roster:
		f.Roster = rosterFromPB(arm.Roster, server)
	case *Forward_Detach:
		f.Detach = true
	}
	return f
}

func clientToPB(c *coordination.Client) *Client {
	if c == nil {
		return nil
	}
	return &Client{Address: c.Peer, Library: c.Library, User: c.User}
}

func clientFromPB(p *Client) *coordination.Client {
	if p == nil {
		return nil
	}
	return &coordination.Client{Peer: p.GetAddress(), Library: p.GetLibrary(), User: p.GetUser()}
}

func identityToPB(i coordination.Identity) *Identity {
	if i == (coordination.Identity{}) {
		return nil
	}
	return &Identity{Kind: uint32(i.Kind), User: i.User.Index, UserPlace: i.User.Place,
		Subject: i.Subject}
}

// identityFromPB gives a kind that this program does not know the highest number: it is nobody whom it knows.
func identityFromPB(p *Identity) coordination.Identity {
	return coordination.Identity{Kind: coordination.IdentityKind(min(p.GetKind(), math.MaxUint8)),
		User: accounts.Position{Index: p.GetUser(), Place: p.GetUserPlace()}, Subject: p.GetSubject()}
}

func requestToPB(r *coordination.Request) *Request {
	return &Request{Kind: uint32(r.Kind), Name: r.Name, Data: r.Data, Count: r.Count,
		TimeoutMillis: r.TimeoutMillis, Limit: r.Limit, Ephemeral: r.Ephemeral, Force: r.Force,
		IncludeOwners: r.IncludeOwners, IncludeWaiters: r.IncludeWaiters, WatchData: r.WatchData,
		WatchOwners: r.WatchOwners}
}

// requestFromPB gives a request of a kind that this program does not know no kind. The leader ends its
// stream.
func requestFromPB(p *Request) *coordination.Request {
	kind := coordination.RequestKind(min(p.GetKind(), math.MaxUint8))
	if !kind.Known() {
		kind = coordination.RequestNone
	}
	return &coordination.Request{Kind: kind, Name: p.GetName(), Data: p.GetData(), Count: p.GetCount(),
		TimeoutMillis: p.GetTimeoutMillis(), Limit: p.GetLimit(), Ephemeral: p.GetEphemeral(),
		Force: p.GetForce(), IncludeOwners: p.GetIncludeOwners(), IncludeWaiters: p.GetIncludeWaiters(),
		WatchData: p.GetWatchData(), WatchOwners: p.GetWatchOwners()}
}

func rosterToPB(r *coordination.Roster) *Roster {
	p := &Roster{Node: uint64(r.Node), Session: uint64(r.Session), EpochTerm: uint64(r.Epoch.Term),
		EpochCounter: r.Epoch.Counter, Path: r.Path, SeqNo: r.SeqNo, Rights: uint32(r.Rights),
		TimeoutMillis: r.TimeoutMillis, Stopping: r.Stopping, Subject: r.Caller.Subject,
		Enforced: r.Caller.Enforced, Identity: identityToPB(r.Identity), Client: clientToPB(r.Client)}
	for _, open := range r.Open {
		p.Open = append(p.Open, &OpenRequest{Sequence: uint64(open.Sequence),
			Request: requestToPB(open.Request), Watching: open.Watching, Mark: markToPB(open.Mark),
			Pending: open.Pending})
	}
	return p
}

func rosterFromPB(p *Roster, server uint64) *coordination.Roster {
	r := &coordination.Roster{Node: coordination.NodeID(p.GetNode()),
		Session: coordination.SessionID(p.GetSession()),
		Epoch:   coordination.Epoch{Term: coordination.Term(p.GetEpochTerm()), Counter: p.GetEpochCounter()},
		Path:    p.GetPath(), Server: server, SeqNo: p.GetSeqNo(), Rights: coordination.Rights(p.GetRights()),
		TimeoutMillis: p.GetTimeoutMillis(), Stopping: p.GetStopping(),
		Caller:   coordination.Caller{Subject: p.GetSubject(), Enforced: p.GetEnforced()},
		Identity: identityFromPB(p.GetIdentity()), Client: clientFromPB(p.GetClient())}
	for _, open := range p.GetOpen() {
		r.Open = append(r.Open, coordination.OpenRequest{Sequence: coordination.Sequence(open.GetSequence()),
			Request: requestFromPB(open.GetRequest()), Watching: open.GetWatching(),
			Mark: markFromPB(open.GetMark()), Pending: open.GetPending()})
	}
	return r
}

// EncodeMessage addresses a message to the stream's number on its own server. A message whose texts cannot be
// encoded becomes the end of its stream.
func EncodeMessage(stream uint64, m *coordination.Message) *Message {
	if m.Refusal != nil && !utf8.ValidString(m.Refusal.Text) ||
		m.Description != nil && !utf8.ValidString(m.Description.Name) {
		end := *m
		end.Kind, end.Refusal, end.Description = coordination.MessageEnd, coordination.LinkFailure, nil
		m = &end
	}
	p := &Message{Stream: stream, Kind: uint32(m.Kind), Sequence: uint64(m.Sequence),
		Request: uint32(m.Request), Node: uint64(m.Node), Session: uint64(m.Session),
		EpochTerm: uint64(m.Epoch.Term), EpochCounter: m.Epoch.Counter, GraceMillis: m.GraceMillis,
		Rights: uint32(m.Rights), Done: m.Done, WatchAdded: m.WatchAdded, DataChanged: m.DataChanged,
		OwnersChanged: m.OwnersChanged}
	p.Mark = markToPB(m.Mark)
	if m.Refusal != nil {
		p.RefusalStatus, p.RefusalText = uint32(m.Refusal.Status), m.Refusal.Text
	}
	if d := m.Description; d != nil {
		p.Description = &Description{Name: d.Name, Data: d.Data, Count: d.Count, Limit: d.Limit,
			Ephemeral: d.Ephemeral, Owners: linksToPB(&d.Owners), Waiters: linksToPB(&d.Waiters)}
	}
	return p
}

// DecodeMessage reads a message of the leader to a stream.
func DecodeMessage(p *Message) coordination.Message {
	m := coordination.Message{Stream: coordination.StreamID(p.GetStream()),
		Kind: coordination.MessageKind(p.GetKind()), Sequence: coordination.Sequence(p.GetSequence()),
		Request: coordination.RequestKind(p.GetRequest()), Node: coordination.NodeID(p.GetNode()),
		Session: coordination.SessionID(p.GetSession()),
		Epoch: coordination.Epoch{Term: coordination.Term(p.GetEpochTerm()),
			Counter: p.GetEpochCounter()},
		GraceMillis: p.GetGraceMillis(),
		Rights:      coordination.Rights(p.GetRights()), Done: p.GetDone(), WatchAdded: p.GetWatchAdded(),
		DataChanged: p.GetDataChanged(), OwnersChanged: p.GetOwnersChanged(), Mark: markFromPB(p.GetMark())}
	if p.GetRefusalStatus() != 0 {
		m.Refusal = &coordination.Refusal{Status: outcome.Status(p.GetRefusalStatus()),
			Text: p.GetRefusalText()}
	}
	if d := p.GetDescription(); d != nil {
		m.Description = &coordination.SemaphoreDescription{Name: d.GetName(), Data: d.GetData(),
			Count: d.GetCount(), Limit: d.GetLimit(), Ephemeral: d.GetEphemeral(),
			Owners: linksFromPB(d.GetOwners()), Waiters: linksFromPB(d.GetWaiters())}
	}
	return m
}

func markToPB(m coordination.WatchMark) *WatchMark {
	if m == (coordination.WatchMark{}) {
		return nil
	}
	return &WatchMark{Semaphore: uint64(m.Semaphore), Index: uint64(m.At.Index),
		Place: uint32(m.At.Place)}
}

func markFromPB(p *WatchMark) coordination.WatchMark {
	return coordination.WatchMark{Semaphore: coordination.SemaphoreID(p.GetSemaphore()),
		At: coordination.Position{Index: coordination.Index(p.GetIndex()),
			Place: coordination.Place(p.GetPlace())}}
}

func linksToPB(list *coordination.Links) []*Link {
	var out []*Link
	for l := range list.All() {
		out = append(out, &Link{Order: uint64(l.Order), Session: uint64(l.Session),
			TimeoutMillis: l.TimeoutMillis, Count: l.Count, Data: l.Data})
	}
	return out
}

func linksFromPB(list []*Link) coordination.Links {
	var out []coordination.LinkDescription
	for _, p := range list {
		out = append(out, coordination.LinkDescription{Order: coordination.OrderID(p.GetOrder()),
			Session: coordination.SessionID(p.GetSession()), TimeoutMillis: p.GetTimeoutMillis(),
			Count: p.GetCount(), Data: p.GetData()})
	}
	return coordination.LinksOf(out)
}

// EncodeOutcome writes the outcome of a command.
func EncodeOutcome(o outcome.Outcome) *ExecuteResponse {
	p := &ExecuteResponse{Status: uint32(o.Status)}
	for _, issue := range o.Issues {
		p.Issues = append(p.Issues, &Issue{Code: issue.Code, Severity: issue.Severity,
			Message: issue.Message})
	}
	return p
}

// DecodeOutcome reads it.
func DecodeOutcome(p *ExecuteResponse) outcome.Outcome {
	o := outcome.Outcome{Status: outcome.Status(p.GetStatus())}
	for _, issue := range p.GetIssues() {
		o.Issues = append(o.Issues, outcome.Issue{Code: issue.GetCode(), Severity: issue.GetSeverity(),
			Message: issue.GetMessage()})
	}
	return o
}
