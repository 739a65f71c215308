package history

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
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

// within reports whether a path is a directory's, or below it.
func within(path, directory string) bool {
	return path == directory || directory == "" || strings.HasPrefix(path, directory+"/")
}

// Wants reports whether a request is about an event, but for its bounds. No request is about a GAP.
func Wants(r *adminpb.EventsRequest, e *adminpb.Event) bool {
	path, name := r.GetPath(), string(r.GetSemaphore())
	return e.GetKind() != adminpb.Event_GAP && (len(r.GetKinds()) == 0 || slices.Contains(r.GetKinds(), e.GetKind())) &&
		(within(e.GetPath(), path) || SumsMany(e) && within(path, e.GetPath())) &&
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
	return Merge(q.Limit, slices.Concat(found[:]...)), err
}

// merged is an event with the servers that count it, a bit for each; the one with the longest copy is from.
type merged struct {
	*adminpb.Event
	from, all uint64
}

// Merge returns the newest of events of several servers, each once, the newest first.
func Merge(limit int, lists ...[]*adminpb.Event) []*adminpb.Event {
	var all, sums []*merged
	for i, list := range lists {
		for _, e := range list {
			all = append(all, &merged{e, 1 << i, 1 << i})
		}
	}
	slices.SortStableFunc(all, func(a, b *merged) int {
		// a server that began within a sum has less of it, only the leader knew some clients, and not all a leader
		return cmp.Or(Compare(b.Event, a.Event), cmp.Compare(b.GetSkipped(), a.GetSkipped()),
			strings.Compare(b.GetServer(), a.GetServer()),
			strings.Compare(b.GetClient().GetAddress(), a.GetClient().GetAddress()))
	})
	for at := len(all) - 1; at > 0; at-- {
		if Compare(all[at-1].Event, all[at].Event) == 0 {
			all[at-1].all |= all[at].all
		}
	}
	all = slices.CompactFunc(all, func(a, b *merged) bool { return Compare(a.Event, b.Event) == 0 })
	for _, e := range all {
		if e.GetSkipped() > 0 {
			sums = append(sums, e)
		}
	}
	slices.SortStableFunc(sums, func(a, b *merged) int { return cmp.Compare(breadth(a.Event), breadth(b.Event)) })
	for _, sum := range sums {
		end := &adminpb.Event{Index: sum.GetLastIndex(), Number: sum.GetLastNumber()}
		at, _ := slices.BinarySearchFunc(all, sum, func(a, b *merged) int { return Compare(b.Event, a.Event) })
		for _, e := range slices.Backward(all[:at]) {
			if sum.GetSkipped() == 0 || Compare(e.Event, end) > 0 {
				break
			}
			if e.all&sum.from == 0 && summed(sum.Event, e.Event) { // another server has it by itself
				sum.Skipped -= min(sum.Skipped, 1+e.GetSkipped())
				e.all |= sum.from
			}
		}
	}
	newest := make([]*adminpb.Event, min(limit, len(all)))
	for i := range newest {
		newest[i] = all[i].Event
	}
	return newest
}

// SumsMany reports whether an event stands for others of many nodes, or for many acts. It has only their directory, or
// their user.
func SumsMany(e *adminpb.Event) bool {
	return e.GetSumsKind() && e.GetNode() == 0 && e.GetAct() == ""
}

// breadth orders sums: what is in the sum of a node is not in that of its tenant.
func breadth(e *adminpb.Event) int {
	if !SumsMany(e) {
		return math.MinInt
	}
	return -len(e.GetPath()) - len(e.GetUser())
}

// summed reports whether a sum stands for an event of its range.
func summed(sum, e *adminpb.Event) bool {
	holds := func(e *adminpb.Event) bool { return e.GetHeld()+e.GetAwaited() > 0 }
	released := func(e *adminpb.Event) bool {
		return e.GetCause() == 0 || e.GetCause() == adminpb.Event_SESSION_STOPPED
	}
	many := SumsMany(sum)
	switch kind := sum.GetKind(); {
	case kind != e.GetKind():
		return false
	case kind == adminpb.Event_ADMINISTERED, kind == adminpb.Event_NODE_DROPPED:
		return many && sum.GetUser() == "" || sum.GetUser() == e.GetUser() && (many || sum.GetAct() == e.GetAct())
	case many && !within(e.GetPath(), sum.GetPath()), !many && sum.GetNode() != e.GetNode():
		return false
	case !sum.GetSumsKind(): // of the same data
		return sum.GetSemaphoreId() == e.GetSemaphoreId() && sum.GetSession() == e.GetSession() &&
			sum.GetUser() == e.GetUser()
	case kind == adminpb.Event_SESSION_STOPPED && sum.GetContended() != e.GetContended(): // of another class
		return false
	}
	return holds(sum) == holds(e) && released(sum) == released(e)
}
