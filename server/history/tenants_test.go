package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/rig"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/events"
)

func all(*adminpb.Event) bool { return true }

// server is a ring with its history.
func server(t *testing.T) (*events.Ring, *History, *source) {
	t.Helper()
	ring, s := events.New(1), &source{}
	h := s.open(rig.New("data"))
	h.config.Take = ring.Take
	return ring, h, s
}

func readAll(t *testing.T, h *History) []*adminpb.Event {
	t.Helper()
	found, err := h.Read(context.Background(), &Query{Limit: 1 << 20, Wanted: all})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestFollowMisses: a batch is written while a reader that follows is between two classes. It has read the audit
// file before, and finds a later event of the configuration: it goes on behind that, and never sees the act.
func TestFollowMisses(t *testing.T) {
	s := &source{}
	h := s.open(rig.New("data"))
	s.add(events.Audit, 10)
	s.add(events.Configuration, 10)
	h.step(time.UnixMilli(0), false)
	var got []uint64
	after := &adminpb.Event{}
	once := false
	for range 3 {
		found, err := h.Read(context.Background(), &Query{Limit: 100, After: after, Wanted: func(*adminpb.Event) bool {
			if !once {
				once = true
				s.add(events.Audit, 10)
				s.add(events.Configuration, 10)
				h.step(time.UnixMilli(0), false)
			}
			return true
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range slices.Backward(found) {
			got = append(got, e.GetIndex())
		}
		if len(found) > 0 {
			after = found[0]
		}
	}
	if !slices.Equal(got, []uint64{1, 2, 3, 4}) {
		t.Errorf("who follows sees %d, want 1 to 4", got)
	}
}

// TestHolderHasNoLine: see events.TestHolderBehindIdle: the log has no line of the holder's end.
func TestHolderHasNoLine(t *testing.T) {
	ring, h, s := server(t)
	for i := range 600 {
		more := &coordination.OccurrenceMore{Path: "/local/x"}
		if i == 599 {
			more.Held, more.Names = 1, []string{"prod"}
		}
		ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurSessionExpired, Index: coordination.Index(i + 1),
			Number: 1, Node: 1, Session: coordination.SessionID(i + 1), More: more}}, leaderPlace{})
	}
	h.step(time.UnixMilli(0), true)
	if !strings.Contains(s.log.String(), "locks or waits") {
		t.Errorf("a session with a lock has ended without a line; the log is %q", s.log.String())
	}
}

// TestLinesOfManyNodes: a tenant with 2,000 nodes and a session with a lock in each loses all of them at once.
func TestLinesOfManyNodes(t *testing.T) {
	ring, h, s := server(t)
	for i := range 2000 {
		ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurSessionExpired, Index: coordination.Index(i + 1),
			Number: 1, Node: coordination.NodeID(i + 1), Session: 1, More: &coordination.OccurrenceMore{
				Path: fmt.Sprint("/local/t/", i), Held: 1, Names: []string{"l"}}}}, leaderPlace{})
	}
	h.step(time.UnixMilli(0), false)
	if n := strings.Count(s.log.String(), "\n"); n > 100 {
		t.Errorf("%d lines of the log in a second, and %d events lost", n, h.Lost())
	}
}

// TestSlowTenant: a tenant of one node deletes semaphores with long names by calls, ten a second, for half an
// hour: a bucket bounds events, not bytes. An administrator's act of before is to be there.
func TestSlowTenant(t *testing.T) {
	ring, h, _ := server(t)
	ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurAdministered, Index: 1, Number: 1,
		More: &coordination.OccurrenceMore{Act: "set password", User: "root"}}}, leaderPlace{})
	h.step(time.UnixMilli(0), false)
	index, name, reason := 1, strings.Repeat("n", 1024), strings.Repeat("u", 128)
	const minutes = 30
	for second := range minutes * 60 {
		for range 10 {
			index++
			ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurSemaphoreDeleted,
				Index: coordination.Index(index), Number: 1, Node: 1, Semaphore: name,
				SemaphoreID: coordination.SemaphoreID(index), StampMillis: uint64(second) * 1000,
				More: &coordination.OccurrenceMore{User: reason}}}, leaderPlace{})
		}
		h.step(time.UnixMilli(int64(second)*1000), false)
	}
	h.close()
	for _, e := range readAll(t, h) {
		if e.GetKind() == adminpb.Event_ADMINISTERED {
			return
		}
	}
	t.Errorf("the act of the administrator is gone after %d minutes of one tenant's ten events a second", minutes)
}

// TestDroppedSilently: an event that has no place in a record is counted as lost, or kept shorter.
func TestDroppedSilently(t *testing.T) {
	s := &source{}
	h := s.open(rig.New("data"))
	s.add(events.Audit, maxEventBytes)
	h.step(time.UnixMilli(0), false)
	if n := len(readAll(t, h)); n == 0 && h.Lost() == 0 {
		t.Error("an event is neither kept nor counted")
	}
}

// TestClockPutBack: a server whose clock is an hour behind sees a leader. Its event is in the newest segment, and
// older than the time that is asked for, so nothing of the segments before it is found.
func TestClockPutBack(t *testing.T) {
	ring, h, _ := server(t)
	add := func(index int) {
		ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurSemaphoreDeleted, Number: 1,
			StampMillis: 10_000_000,
			Index:       coordination.Index(index), Node: coordination.NodeID(index), SemaphoreID: 1,
			Semaphore: strings.Repeat("n", 1024)}}, leaderPlace{})
	}
	for i := range 900 { // more than nine tenths of a segment
		add(i + 1)
	}
	h.step(time.UnixMilli(0), false)
	for i := range 200 {
		add(i + 901)
	}
	ring.Elected(1000, 1101, 7, leaderPlace{})
	h.step(time.UnixMilli(0), false)
	found, err := h.Read(context.Background(), &Query{Limit: 1 << 20, SinceMillis: 9_000_000, Wanted: all})
	if err != nil || len(found) != 1101 {
		t.Errorf("%d of 1101 events since then are found: %v", len(found), err)
	}
}

// TestChangeWithoutLine: a session changes data, and a call does within the same second. The event stands for
// both and has the call's session, 0, so that no line of the log is about the session's.
func TestChangeWithoutLine(t *testing.T) {
	ring, h, s := server(t)
	for i, session := range []coordination.SessionID{5, 0} {
		ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurDataChanged, Index: coordination.Index(i + 1),
			Number: 1, Node: 1, Session: session, SemaphoreID: 1, Semaphore: "flags", StampMillis: 5000}},
			leaderPlace{})
	}
	h.step(time.UnixMilli(0), true)
	if !strings.Contains(s.log.String(), "data of a semaphore was changed") {
		t.Errorf("the change by session 5 has no line: %q", s.log.String())
	}
}

// TestFailedSums: what a full disk loses is counted with what it stood for.
func TestFailedSums(t *testing.T) {
	s := &source{}
	h := s.open(rig.New("data"))
	s.add(events.Audit, 1)
	s.next[0].Skipped = 811
	s.full = context.Canceled
	h.step(time.UnixMilli(0), false)
	if h.Lost() != 812 {
		t.Errorf("%d of 812 events are counted as lost", h.Lost())
	}
}

// TestReadersWait: a reader that looks for nothing that exists scans all files, one caller after the other. A caller
// whose time is up is not to wait for that.
func TestReadersWait(t *testing.T) {
	s := &source{}
	h := s.open(rig.New("data"))
	s.add(events.Audit, 10)
	h.step(time.UnixMilli(0), false)
	inside, leave, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.Read(context.Background(), &Query{Limit: 1, Wanted: func(*adminpb.Event) bool {
			close(inside)
			<-leave
			return true
		}})
	}()
	<-inside
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := h.Read(ctx, &Query{Limit: 1, Wanted: all})
		answered <- err
	}()
	select {
	case err := <-answered:
		if err == nil {
			t.Error("a caller who has gone gets an answer")
		}
	case <-time.After(5 * time.Second): // only where it fails
		t.Error("a caller who has gone waits for another one's scan")
	}
	close(leave)
	<-ended
}

// TestRightsAreAskedByFile: the rights of a tenant with many nodes are looked up for a file at once, and what he may
// not see takes no place among the newest.
func TestRightsAreAskedByFile(t *testing.T) {
	s := &source{}
	h := s.open(rig.New("data"))
	for range 1200 { // two files of each class
		s.add(events.Audit, 1000)
		s.add(events.Configuration, 1000)
	}
	h.step(time.UnixMilli(0), false)
	asked := 0
	found, err := h.Read(context.Background(), &Query{Limit: 3, Wanted: all,
		Permit: func(list []*adminpb.Event) []*adminpb.Event {
			asked++
			return slices.DeleteFunc(list, func(e *adminpb.Event) bool { return e.GetIndex() > 4 })
		}})
	if err != nil || asked != 4 || len(found) != 3 || found[0].GetIndex() != 4 {
		t.Errorf("asked %d times, found %v: %v", asked, found, err)
	}
}

// TestFollowBeginsInABatch: the first question of a caller that follows comes while a batch is being written: it has
// read the audit file before, and finds a later event of the configuration. It goes on behind that, and never sees the
// act.
func TestFollowBeginsInABatch(t *testing.T) {
	s := &source{}
	h := s.open(rig.New("data"))
	s.add(events.Audit, 10)
	s.add(events.Configuration, 10)
	h.step(time.UnixMilli(0), false)
	seen, q, written := map[uint64]bool{}, &Query{Limit: 100}, false
	q.Wanted = func(*adminpb.Event) bool {
		if !written {
			written = true
			s.add(events.Audit, 10)
			s.add(events.Configuration, 10)
			h.step(time.UnixMilli(0), false)
		}
		return true
	}
	for range 3 {
		found, err := h.Read(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			seen[e.GetIndex()] = true
		}
		if len(found) > 0 {
			q.After = found[0]
		}
	}
	if len(seen) != 4 {
		t.Errorf("of events 1 to 4 these are seen: %v", seen)
	}
}

// TestEventsOfLongPaths: the events of a node whose path has 200 bytes are found by its path, and the end of a session
// by the name of the semaphore that it held.
func TestEventsOfLongPaths(t *testing.T) {
	ring, h, _ := server(t)
	path := "/local/" + strings.Repeat("d", 193)
	name := strings.Repeat("n", 200)
	ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurSessionExpired, Index: 1, Number: 1, Node: 1,
		Session: 1, StampMillis: 10_000_000, More: &coordination.OccurrenceMore{Path: path, Held: 1,
			Names: []string{name}}}}, leaderPlace{})
	h.step(time.UnixMilli(0), false)
	for what, r := range map[string]*adminpb.EventsRequest{"path": {Path: path}, "name": {Semaphore: []byte(name)}} {
		found, err := h.Read(context.Background(), &Query{Limit: 10,
			Wanted: func(e *adminpb.Event) bool { return Wants(r, e) }})
		if err != nil || len(found) != 1 {
			t.Errorf("by its %s %d events are found: %v", what, len(found), err)
		}
	}
}

// TestSumIsNotOnesChange: events beyond a node's tokens are summed, whatever semaphore they are about. The line of the
// sum names nobody for what others did.
func TestSumIsNotOnesChange(t *testing.T) {
	ring, h, s := server(t)
	for i := range 600 {
		ring.Add(0, []coordination.Occurrence{{Kind: coordination.OccurDataChanged, Index: coordination.Index(i + 1),
			Number: 1, Node: 1, Session: coordination.SessionID(i + 1), SemaphoreID: coordination.SemaphoreID(i + 1),
			Semaphore: "name-" + strings.Repeat("x", i%7), StampMillis: 10_000_000,
			More: &coordination.OccurrenceMore{Path: "/local/x"}}}, leaderPlace{})
	}
	h.step(time.UnixMilli(0), false)
	h.step(time.UnixMilli(0), false)
	if log := s.log.String(); strings.Contains(log, "changes=100") && strings.Contains(log, "session=501") {
		t.Errorf("the changes of 100 sessions are those of one:\n%s", log[strings.LastIndex(log[:len(log)-1], "\n")+1:])
	}
}

// TestAdministratorsDoNotWait: a tenant scans all files again and again for nothing that exists. An administrator does
// not wait behind him.
func TestAdministratorsDoNotWait(t *testing.T) {
	s := &source{}
	h := s.open(rig.New("data"))
	s.add(events.Audit, 10)
	h.step(time.UnixMilli(0), false)
	inside, leave := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = h.Read(context.Background(), &Query{Limit: 1, Wanted: func(*adminpb.Event) bool {
			close(inside)
			<-leave
			return true
		}})
	}()
	<-inside
	defer close(leave)
	answered := make(chan int, 1)
	go func() {
		found, _ := h.Read(context.Background(), &Query{Limit: 1, Wanted: all, Administers: true})
		answered <- len(found)
	}()
	select {
	case n := <-answered:
		if n != 1 {
			t.Errorf("%d events", n)
		}
	case <-time.After(5 * time.Second): // only where it fails
		t.Error("an administrator waits for a tenant's scan")
	}
}

// tenantPlace: node 1 is a tenant's, all others are another one's.
type tenantPlace struct{ leaderPlace }

func (tenantPlace) TenantOf(id coordination.NodeID) string {
	if id == 1 {
		return "calm"
	}
	return "flood"
}
func (tenantPlace) PathOfTenant(name string) string { return "/local/" + name }

// TestNoTenantDisplacesAnother: a tenant with many nodes loses ten sessions with a lock on each, each second for an
// hour. Another one loses one a minute. All of these are kept, and at the pace of the second half of the hour the first
// one takes hours to displace them.
func TestNoTenantDisplacesAnother(t *testing.T) {
	more := &coordination.OccurrenceMore{Path: "/local/flood/node", Held: 1, Names: []string{"nightly-report"},
		Client: coordination.Client{Peer: "10.20.30.40:50000", Library: "ydb-go-sdk/3.100.0", User: "job"}}
	for _, nodes := range []int{200, 4096} {
		ring, h, _ := server(t)
		index, counted := 0, 0
		expire := func(millis int, node coordination.NodeID) {
			index++
			counted++
			o := coordination.Occurrence{Kind: coordination.OccurSessionExpired, Index: coordination.Index(index),
				Number: 1, Node: node, Session: coordination.SessionID(index), StampMillis: uint64(millis), More: more}
			lost := o
			lost.Kind, lost.Cause, lost.Number = coordination.OccurLockLost, coordination.OccurSessionExpired, 2
			lost.Semaphore, lost.SemaphoreID, lost.More = more.Names[0], 1, nil
			ring.Add(0, []coordination.Occurrence{o, lost}, tenantPlace{})
		}
		const minutes = 60
		for second := range minutes * 60 {
			each := 50 // later on all are summed up: fewer make the same records
			if second < 3 {
				each = 10 * nodes
			}
			for i := range each {
				expire(second*1000, coordination.NodeID(2+i%nodes))
			}
			if second%60 == 59 {
				expire(second*1000+999, 1)
			}
			h.step(time.UnixMilli(int64(second)*1000), false)
		}
		h.step(time.UnixMilli(0), true)
		calm, half := 0, 0
		for _, e := range readAll(t, h) {
			if e.GetKind() == adminpb.Event_SESSION_EXPIRED {
				counted -= 1 + int(e.GetSkipped())
			}
			switch {
			case e.GetNode() == 1 && e.GetKind() == adminpb.Event_SESSION_EXPIRED:
				calm++
			case e.GetTimeMillis() >= minutes*30_000:
				half += recordBytes + proto.Size(e)
			}
		}
		if calm != minutes || counted != 0 || h.Lost() != 0 {
			t.Errorf("%d nodes: %d of %d ends of the other tenant are kept; %d are not counted, %d lost", nodes, calm,
				minutes, counted, h.Lost())
		}
		if hours := events.ClassBytes[events.AbnormalEnds] * 7 / 8 / (2 * half); hours < 4 {
			t.Errorf("%d nodes: %d bytes in half an hour displace an end within %d hours", nodes, half, hours)
		}
		h.close()
	}
}
