package history

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/events"
)

// Query selects events.
type Query struct {
	// Before and After, unless nil, are events that are not among those that are wanted, but bound them (Compare).
	Before, After *adminpb.Event
	SinceMillis   uint64 // since 1970
	Limit         int    // the newest so many
	Administers   bool   // its caller does not wait for those that do not
	// Wanted reports whether an event is wanted.
	Wanted func(*adminpb.Event) bool
	// Permit, unless nil, removes events that the caller may not see. It gets those of a file that are wanted at once.
	Permit func([]*adminpb.Event) []*adminpb.Event
}

// Wants reports whether a request is about an event, but for its bounds. No request is about a GAP.
func Wants(r *adminpb.EventsRequest, e *adminpb.Event) bool {
	path, name := r.GetPath(), string(r.GetSemaphore())
	return e.GetKind() != adminpb.Event_GAP && (len(r.GetKinds()) == 0 || slices.Contains(r.GetKinds(), e.GetKind())) &&
		(path == "" || e.GetPath() == path || strings.HasPrefix(e.GetPath(), path+"/")) &&
		(r.GetSession() == 0 || e.GetSession() == r.GetSession()) &&
		(name == "" || string(e.GetSemaphore()) == name ||
			slices.ContainsFunc(e.GetNames(), func(n []byte) bool { return string(n) == name }))
}

// matches reports whether an event is wanted, but for the limit.
func (q *Query) matches(e *adminpb.Event) bool {
	return (q.Before == nil || Compare(e, q.Before) < 0) && (q.After == nil || Compare(e, q.After) > 0) &&
		e.GetTimeMillis() >= q.SinceMillis && q.Wanted(e)
}

// permitted returns those of some events that the caller may see.
func (q *Query) permitted(list []*adminpb.Event) []*adminpb.Event {
	if q.Permit == nil || len(list) == 0 {
		return list
	}
	return q.Permit(list)
}

// Read returns events, the newest first. It waits for others that read, but for administrators' sake not for all.
func (h *History) Read(ctx context.Context, q *Query) ([]*adminpb.Event, error) {
	reading := h.reading[0]
	if q.Administers {
		reading = h.reading[1]
	}
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h.config.FS == nil {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		var found []*adminpb.Event
		for _, e := range slices.Concat(h.memory[:]...) {
			if q.matches(e) {
				found = append(found, proto.CloneOf(e))
			}
		}
		return Merge(q.Limit, q.permitted(found)), nil
	}
	// A reader that goes on from a position would miss the rest of a batch that is being written, or begins meanwhile.
	written, hidden := h.written.Load(), h.hidden.Load()
	whole := func(index uint64) bool { return (hidden == 0 || index < hidden) && (written == 0 || index <= written) }
	own := *q
	own.Wanted = func(e *adminpb.Event) bool { return whole(e.GetIndex()) && q.Wanted(e) }
	return read(ctx, h.config.FS, h.config.Dir, &own)
}

// ReadDir returns events of a server that does not run, from its data directory.
func ReadDir(ctx context.Context, dataDir string, q *Query) ([]*adminpb.Event, error) {
	return read(ctx, files.Disk{}, filepath.Join(dataDir, Dir), q)
}

// read returns the events of a directory.
func read(ctx context.Context, from files.FS, dir string, q *Query) ([]*adminpb.Event, error) {
	names, err := from.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var segments [events.Classes][]uint64
	for _, name := range names {
		if class, sequence, is := parseName(name); is {
			segments[class] = append(segments[class], sequence)
		}
	}
	var found [events.Classes][]*adminpb.Event
	for class := range events.Classes {
		slices.Sort(segments[class])
		for _, sequence := range slices.Backward(segments[class]) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			content, wrong := files.Read(from, filepath.Join(dir, segmentName(class, sequence)))
			if errors.Is(wrong, fs.ErrNotExist) { // removed meanwhile
				continue
			}
			err = errors.Join(err, wrong)
			older := false // of these and what is before them nothing is among the newest
			var wanted []*adminpb.Event
			scan(content, class, sequence, func(e *adminpb.Event) {
				older = older || e.GetTimeMillis() < q.SinceMillis || q.After != nil && Compare(e, q.After) <= 0
				if q.matches(e) {
					wanted = append(wanted, e)
				}
			})
			found[class] = append(found[class], q.permitted(wanted)...)
			if older || len(found[class]) >= q.Limit {
				break
			}
		}
	}
	return Merge(q.Limit, found[:]...), err
}

// Merge returns the newest of events of several servers, each once, the newest first.
func Merge(limit int, lists ...[]*adminpb.Event) []*adminpb.Event {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b *adminpb.Event) int {
		// a server that began within a sum has less of it, only the leader knew some clients, and not all a leader
		return cmp.Or(Compare(b, a), cmp.Compare(b.GetSkipped(), a.GetSkipped()), strings.Compare(b.GetServer(),
			a.GetServer()), strings.Compare(b.GetClient().GetAddress(), a.GetClient().GetAddress()))
	})
	all = slices.CompactFunc(all, func(a, b *adminpb.Event) bool { return Compare(a, b) == 0 })
	for at, sum := range all {
		end := &adminpb.Event{Index: sum.GetLastIndex(), Number: sum.GetLastNumber()}
		for _, e := range slices.Backward(all[:at]) {
			if sum.GetSkipped() == 0 || Compare(e, end) > 0 {
				break
			}
			if summed(sum, e) { // another server has it by itself
				sum.Skipped -= min(sum.Skipped, 1+e.GetSkipped())
			}
		}
	}
	return all[:min(limit, len(all))]
}

// summed reports whether a sum stands for an event of its range.
func summed(sum, e *adminpb.Event) bool {
	act := sum.GetKind() == adminpb.Event_ADMINISTERED || sum.GetKind() == adminpb.Event_NODE_DROPPED
	holds := func(e *adminpb.Event) bool { return e.GetHeld()+e.GetAwaited() > 0 }
	released := func(e *adminpb.Event) bool {
		return e.GetCause() == 0 || e.GetCause() == adminpb.Event_SESSION_STOPPED
	}
	switch {
	case sum.GetKind() != e.GetKind():
		return false
	case act: // of one user
		return sum.GetUser() == e.GetUser() && sum.GetAct() == e.GetAct()
	case sum.GetNode() != e.GetNode():
		return false
	case !sum.GetSumsKind(): // of the same data
		return sum.GetSemaphoreId() == e.GetSemaphoreId() && sum.GetSession() == e.GetSession() &&
			sum.GetUser() == e.GetUser()
	}
	return holds(sum) == holds(e) && sum.GetContended() == e.GetContended() && released(sum) == released(e)
}
