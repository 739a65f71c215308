package inspect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/adminpb"
)

// TestBoardKeepsTheFirst compares boards of random rows with all rows sorted.
func TestBoardKeepsTheFirst(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{0, 1, maxBoardRows, maxBoardRows + 1, 3*maxBoardRows + 7, 9 * maxBoardRows} {
		b := newBoard()
		var all []*boardRow
		for i := range n {
			row := &boardRow{}
			row.seen.Name = fmt.Sprintf("%d/%d", random.IntN(100), i)
			links := []coordination.InspectedLink{{Owner: true, BeganMillis: random.Uint64N(1000)},
				{Owner: true, BeganMillis: 1}, {BeganMillis: random.Uint64N(1000)}}
			row.addLinks(links[random.IntN(3):])
			b.add(row)
			all = append(all, row)
		}
		b.add(&boardRow{}) // neither held nor awaited
		for order, compare := range compare {
			b.cut(order)
			slices.SortFunc(all, compare)
			same := func(a, b *boardRow) bool { return a.seen.Name == b.seen.Name }
			want := all[:min(n, maxBoardRows)]
			if !slices.EqualFunc(b.orders[order], want, same) || b.total != uint64(n) {
				t.Fatalf("seed %d, %d rows, %s: %d are kept of %d, not the first", seed, n, order,
					len(b.orders[order]), b.total)
			}
		}
	}
}

// TestUnknownTimesComeLast: a lock held since nobody knows when is no reason to look at it first.
func TestUnknownTimesComeLast(t *testing.T) {
	row := func(name string, links ...coordination.InspectedLink) *boardRow {
		r := &boardRow{seen: coordination.InspectedSemaphore{Name: name}}
		r.addLinks(links)
		return r
	}
	owner := func(since uint64) coordination.InspectedLink {
		return coordination.InspectedLink{Owner: true, BeganMillis: since}
	}
	rows := []*boardRow{row("awaited", coordination.InspectedLink{BeganMillis: 1}), row("unknown", owner(0)),
		row("young", owner(9)), row("old", owner(5))}
	slices.SortFunc(rows, compare[adminpb.PageRequest_LONGEST_HELD])
	names := ""
	for _, r := range rows {
		names += r.seen.Name + " "
	}
	if names != "old young unknown awaited " {
		t.Error(names)
	}
}

// TestRowsWithoutAPlaceCostNothing: of a million held semaphores the board has the first 10,000.
func TestRowsWithoutAPlaceCostNothing(t *testing.T) {
	b := newBoard()
	row := func(i int) *boardRow {
		return &boardRow{held: true, owner: coordination.InspectedLink{BeganMillis: uint64(i)},
			seen: coordination.InspectedSemaphore{Name: fmt.Sprintf("%9d", i)}}
	}
	for i := range 2 * maxBoardRows {
		b.add(row(i))
	}
	last := row(3 * maxBoardRows)
	if allocations := testing.AllocsPerRun(100, func() { b.add(last) }); allocations != 0 {
		t.Errorf("%v allocations for a row that is left out", allocations)
	}
}
