package inspect

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/events"
)

const (
	// maxBoardRows bounds the rows of a board in each order.
	maxBoardRows = 10_000
	// A board is shown for boardLife, or for boardLifeTimes the time that its making took, whichever is longer: boards
	// take a thirtieth of one processor at most, however many semaphores are held.
	boardLife      = time.Second
	boardLifeTimes = 30
	// maxOrderedRows bounds an answer.
	maxOrderedRows = 1000
)

// Boards makes boards while somebody looks, one at a time for all callers.
type Boards struct {
	group  *group.Group
	making *budget.Budget // one place
	mutex  sync.Mutex
	last   *board // nil where none is fresh
}

// NewBoards returns Boards without a board, of what a group has.
func NewBoards(of *group.Group) *Boards { return &Boards{group: of, making: budget.New("boards", 1)} }

// fresh returns a board that is shown, or nil.
func (s *Boards) fresh() *board {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.last
}

// show keeps a board that took a time to make.
func (s *Boards) show(made *board, took time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last = made
	time.AfterFunc(max(boardLife, boardLifeTimes*took), func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.last == made {
			s.last = nil
		}
	})
}

// board has the semaphores that are held or awaited, in several orders, as they were while it was made. It does not
// change.
type board struct {
	total  uint64
	millis uint64 // the time at its beginning, since 1970
	orders map[adminpb.PageRequest_Order][]*boardRow
	worst  map[adminpb.PageRequest_Order]*boardRow // the last row of an order that is full, while the board is made
}

func newBoard() *board {
	return &board{orders: make(map[adminpb.PageRequest_Order][]*boardRow),
		worst: make(map[adminpb.PageRequest_Order]*boardRow)}
}

// boardRow is a semaphore with its oldest owner and waiter. Most of a million are looked at and left out, so they are
// shown only once they have a place on the board.
type boardRow struct {
	path          string
	seen          coordination.InspectedSemaphore
	owner, waiter coordination.InspectedLink // with BeganMillis 0 if that is unknown, or nobody
	held, waited  bool
	shown         *adminpb.Semaphore
}

// compare has the comparison of each order. What is unknown comes last among those that wait, or are held.
var compare = map[adminpb.PageRequest_Order]func(a, b *boardRow) int{
	adminpb.PageRequest_OLDEST_WAIT: func(a, b *boardRow) int {
		return cmp.Or(boolean(b.waited, a.waited),
			cmp.Compare(a.waiter.BeganMillis-1, b.waiter.BeganMillis-1), byHold(a, b))
	},
	adminpb.PageRequest_LONGEST_HELD: byHold,
	adminpb.PageRequest_NAME:         byName,
}

func byHold(a, b *boardRow) int {
	return cmp.Or(boolean(b.held, a.held), cmp.Compare(a.owner.BeganMillis-1, b.owner.BeganMillis-1), byName(a, b))
}

func byName(a, b *boardRow) int {
	return cmp.Or(strings.Compare(a.seen.Name, b.seen.Name), strings.Compare(a.path, b.path))
}

func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// board returns a fresh board, and makes it if nobody else has.
func (s *Boards) board(ctx context.Context) (*board, error) {
	if !s.making.Acquire(ctx, 1) {
		return nil, ctx.Err()
	}
	defer s.making.Release(1)
	if b := s.fresh(); b != nil {
		return b, nil
	}
	b, began := newBoard(), time.Now()
	q := &coordination.Inspection{Kind: coordination.InspectSemaphores, Data: maxShownBytes}
	var last boardRow
	for at := (coordination.InspectionPlace{}); ; {
		found, err := s.group.Inspect(ctx, q, at, maxPageRows)
		if err != nil {
			return nil, err
		}
		b.millis = cmp.Or(b.millis, found.WallMillis)
		for i := range found.Semaphores {
			seen := &found.Semaphores[i]
			if !seen.Continued || seen.ID != last.seen.ID || seen.Node != last.seen.Node {
				b.add(&last)
				if seen.Node != last.seen.Node {
					last.path = seen.Path.String()
				}
				last = boardRow{path: last.path, seen: *seen}
				last.seen.Links = nil // those wanted are copied
			}
			last.addLinks(seen.Links)
		}
		if found.Done {
			break
		}
		at = found.Next
	}
	b.add(&last)
	for order := range compare {
		b.cut(order)
		for i, row := range b.orders[order] {
			row.show()
			if i < maxOrderedRows {
				row.shown.UsualMillis = events.Usual(s.group.Events().Holds(row.seen.Node, row.seen.Name))
			}
		}
	}
	s.show(b, time.Since(began))
	return b, nil
}

// addLinks takes the first owner and the first waiter.
func (r *boardRow) addLinks(links []coordination.InspectedLink) {
	for i := range links {
		switch l := &links[i]; {
		case l.Owner && !r.held:
			r.held, r.owner = true, *l
		case !l.Owner && !r.waited:
			r.waited, r.waiter = true, *l
		}
	}
}

// show makes what callers see of a row.
func (r *boardRow) show() {
	if r.shown != nil { // in another order
		return
	}
	r.shown = semaphoreToPB(&r.seen, maxShownBytes)
	r.shown.Continued = false
	if r.held {
		r.shown.Owners = []*adminpb.Link{linkToPB(&r.owner, maxShownBytes)}
	}
	if r.waited {
		r.shown.Waiters = []*adminpb.Link{linkToPB(&r.waiter, maxShownBytes)}
	}
}

// add adds a copy of a row that is held or awaited. It keeps up to twice as many as a board has until it cuts.
func (b *board) add(row *boardRow) {
	if !row.held && !row.waited {
		return
	}
	b.total++
	var kept *boardRow
	for order, compared := range compare {
		if worst := b.worst[order]; worst != nil && compared(row, worst) > 0 {
			continue
		}
		if kept == nil {
			copied := *row
			kept = &copied
		}
		b.orders[order] = append(b.orders[order], kept)
		if len(b.orders[order]) >= 2*maxBoardRows {
			b.cut(order)
		}
	}
}

func (b *board) cut(order adminpb.PageRequest_Order) {
	rows := b.orders[order]
	slices.SortFunc(rows, compare[order])
	kept := min(len(rows), maxBoardRows)
	clear(rows[kept:])
	if b.orders[order] = rows[:kept]; kept == maxBoardRows {
		b.worst[order] = rows[kept-1]
	}
}

// page answers a request with an order from a board, and returns the owners whose sessions the answer is to have; all
// reports that the caller may see everything.
func (s *Boards) page(ctx context.Context, r *adminpb.PageRequest, caller coordination.Caller,
	all bool) (*adminpb.Page, *clusterpb.HoldersRequest, error) {
	if compare[r.GetOrder()] == nil || r.GetKind() != adminpb.PageRequest_SEMAPHORES || r.GetPageToken() != "" ||
		r.GetExact() {
		return nil, nil, status.Error(codes.InvalidArgument,
			"order: want KEY, or OLDEST_WAIT, LONGEST_HELD or NAME for SEMAPHORES, without a page token and exact")
	}
	if err := s.group.CatchUp(ctx); err != nil {
		return nil, nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	b, err := s.board(ctx)
	if err != nil {
		return nil, nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	rows := b.orders[r.GetOrder()]
	page := &adminpb.Page{More: uint64(len(rows)) < b.total, TimeMillis: b.millis}
	if all {
		page.Total = b.total
	}
	path := scheme.SplitLoose(r.GetPath()).String()
	wanted := func(row *boardRow) bool {
		at := row.shown.GetPath()
		return (r.GetPath() == "" || at == path || strings.HasPrefix(at, path+"/")) &&
			bytes.HasPrefix(row.shown.GetName(), r.GetPrefix()) &&
			(bytes.Contains(row.shown.GetName(), r.GetSearch()) || strings.Contains(at, string(r.GetSearch())))
	}
	owners := &clusterpb.HoldersRequest{}
	visible := make(map[coordination.NodeID]bool)
	most := int(min(cmp.Or(r.GetPageSize(), maxPageRows), maxOrderedRows))
	for chunk := range slices.Chunk(rows, maxPageRows) {
		if err := s.mayRead(ctx, caller, chunk, visible); err != nil {
			return nil, nil, err
		}
		for _, row := range chunk {
			switch {
			case !visible[row.seen.Node] || !wanted(row):
			case len(page.GetSemaphores()) == most:
				page.More = true
				return page, owners, nil
			default:
				page.Semaphores = append(page.Semaphores, row.shown)
				if row.held && len(owners.GetNodes()) < maxPageRows {
					owners.Nodes = append(owners.Nodes, uint64(row.seen.Node))
					owners.Sessions = append(owners.Sessions, row.shown.GetOwners()[0].GetSession())
				}
			}
		}
	}
	return page, owners, nil
}

// mayRead finds out which nodes of rows the caller may read.
func (s *Boards) mayRead(ctx context.Context, caller coordination.Caller, rows []*boardRow,
	visible map[coordination.NodeID]bool) error {
	_, err := s.group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		subject := m.Subject(caller)
		for _, row := range rows {
			if _, known := visible[row.seen.Node]; known {
				continue
			}
			entry, found := m.Tree().Lookup(m.PathOfNode(row.seen.Node))
			visible[row.seen.Node] = found && entry.Node == row.seen.Node &&
				(subject.Exempt || m.Tree().Rights(entry, subject)&scheme.SelectRow != 0)
		}
		return outcome.Done()
	})
	if err != nil {
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	return nil
}
