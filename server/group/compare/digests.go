package compare

import (
	"cmp"
	"slices"
	"sync"

	"github.com/coordd/coordd/internal/turn"
)

// report is a digest of a server's state as it was behind an entry of the log.
type report struct {
	index   uint64
	version uint32 // of the hash; digests of different versions say nothing about each other
	digest  uint64
}

// ReportsKept bounds the reports of one server that are remembered, those of the highest indexes: a server that
// lags so many marks behind is compared at a later one.
const ReportsKept = 4

// digests has the known digests of this server's state and of those of the others. Nothing in it is stored: a server
// that is started again begins with the digest of its checkpoint.
type digests struct {
	bell turn.Bell // compareDigests listens

	mutex   sync.Mutex
	own     []report            // ascending by index, here and below
	others  map[uint64][]report // of members, by their ids
	givenUp uint64              // reports up to this index wait for those of nobody any more
}

func newDigests() *digests { return &digests{bell: turn.NewBell(), others: make(map[uint64][]report)} }

// with adds a report to those of one server. The last word about an index counts: the server may have been
// started again.
func with(list []report, r report) []report {
	at, found := slices.BinarySearchFunc(list, r.index, func(known report, index uint64) int {
		return cmp.Compare(known.index, index)
	})
	if found {
		list[at] = r
		return list
	}
	list = slices.Insert(list, at, r)
	return slices.Delete(list, 0, max(0, len(list)-ReportsKept))
}

func reportAt(list []report, index uint64) (report, bool) {
	for _, r := range list {
		if r.index == index {
			return r, true
		}
	}
	return report{}, false
}

// addOwn adds a report of this server's own.
func (d *digests) addOwn(r report) {
	d.mutex.Lock()
	d.own = with(d.own, r)
	d.mutex.Unlock()
	d.bell.Ring()
}

// replaced notes that another member's state has taken the place of this server's: earlier digests are void.
func (d *digests) replaced(r report) {
	d.mutex.Lock()
	d.own = nil
	d.mutex.Unlock()
	d.addOwn(r)
}

// heard adds a report of another server, and forgets those of servers that are not members any more.
func (d *digests) heard(from uint64, r report, members []uint64) {
	d.mutex.Lock()
	d.others[from] = with(d.others[from], r)
	d.forget(members)
	d.mutex.Unlock()
	d.bell.Ring()
}

// forget drops the reports of servers that are not members. The mutex is held.
func (d *digests) forget(members []uint64) {
	for id := range d.others {
		if !slices.Contains(members, id) {
			delete(d.others, id)
		}
	}
}

// at is this server's report as of index.
func (d *digests) at(index uint64) (report, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return reportAt(d.own, index)
}

// newest is this server's last report.
func (d *digests) newest() (report, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if len(d.own) == 0 {
		return report{}, false
	}
	return d.own[len(d.own)-1], true
}

// heardOf returns the indexes of the others' reports.
func (d *digests) heardOf() map[uint64][]uint64 {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	heard := make(map[uint64][]uint64, len(d.others))
	for id, list := range d.others {
		for _, r := range list {
			heard[id] = append(heard[id], r.index)
		}
	}
	return heard
}

// giveUp ends the waiting for reports as of index and earlier.
func (d *digests) giveUp(index uint64) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.givenUp = max(d.givenUp, index)
}

// verdict is the result of a comparison for this server's state at one index.
type verdict uint8

const (
	// uncontradicted: no voter is known to have another state.
	uncontradicted verdict = iota
	// pending: one has, and who has not reported yet may show who is right.
	pending
	// agreed: a majority of the voters has this server's state, though not all servers have.
	agreed
	// outvoted: a majority of the voters has another one.
	outvoted
	// split: no majority has any.
	split
)

// finding is the verdict about one report of this server.
type finding struct {
	verdict
	report    report
	majority  uint64   // outvoted: the digest that it shares
	compared  bool     // there is a report of another voter to be compared with
	differing []uint64 // the members whose state is another
}

// electorate is the members of the cluster, and which of them vote.
type electorate struct {
	self            uint64
	members, voters []uint64
}

// judge compares a report of this server's own with those of the others.
func (d *digests) judge(r report, e *electorate) finding {
	f := finding{report: r}
	counts := make(map[uint64]int)
	missing, contradicted := 0, false
	for _, id := range e.members {
		said, known := reportAt(d.others[id], r.index)
		if id == e.self {
			said, known = r, true
		}
		votes := slices.Contains(e.voters, id)
		switch {
		case known && said.version != r.version:
			continue
		case known && said.digest != r.digest:
			f.differing = append(f.differing, id)
			contradicted = contradicted || votes
		}
		switch {
		case !votes:
		case !known:
			missing++
		default:
			counts[said.digest]++
			f.compared = f.compared || id != e.self
		}
	}
	needed, most := len(e.voters)/2+1, 0
	for digest, count := range counts {
		most = max(most, count)
		if count >= needed && digest != r.digest {
			f.verdict, f.majority = outvoted, digest
			return f
		}
	}
	switch {
	case counts[r.digest] >= needed && len(f.differing) > 0:
		f.verdict = agreed
	case !contradicted:
	case most+missing >= needed && r.index > d.givenUp:
		f.verdict = pending
	default:
		f.verdict = split
	}
	return f
}

// findings judges all reports of this server, the newest first.
func (d *digests) findings(e *electorate) []finding {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.forget(e.members)
	found := make([]finding, 0, len(d.own))
	for _, r := range slices.Backward(d.own) {
		found = append(found, d.judge(r, e))
	}
	return found
}

// present returns the newest finding that has anything to compare, or that concerns a learner.
func present(found []finding) finding {
	for _, f := range found {
		if f.compared || len(f.differing) > 0 {
			return f
		}
	}
	return finding{}
}
