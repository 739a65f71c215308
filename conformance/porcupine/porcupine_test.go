package porcupine

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/conformance/sim/check"
)

const never = math.MaxInt64

func create(limit uint64) check.Operation {
	return check.Operation{Semaphore: "a", Kind: model.Create, Limit: limit, Return: 1, Status: model.Success}
}

// try is an acquire that does not wait.
func try(session, count uint64, done bool, call, end int64) check.Operation {
	return check.Operation{Semaphore: "a", Client: int(session), Session: session, Kind: model.Acquire, Count: count,
		Try: true, Done: done, Status: model.Success, Call: call, Return: end}
}

func queued(session uint64, pending bool, call, end int64) check.Operation {
	o := try(session, 1, true, call, end)
	o.Try, o.Pending = false, pending
	return o
}

func step1(session uint64, kind model.Kind, call, end int64) check.Operation {
	return check.Operation{Semaphore: "a", Client: int(session), Session: session, Kind: kind, Done: true,
		Status: model.Success, Call: call, Return: end, Unknown: end == never}
}

func described(d model.Description, call, end int64) check.Operation {
	o := step1(9, model.Describe, call, end)
	o.Describe = &d
	return o
}

// Each history has an order, or none.
func TestHistories(t *testing.T) {
	owner := func(session uint64) model.Description {
		return model.Description{Limit: 1, Owners: []model.LinkDescription{{Session: session, Count: 1}}}
	}
	for name, test := range map[string]struct {
		list []check.Operation
		good bool
	}{
		"one after the other": {[]check.Operation{create(1), try(1, 1, true, 2, 3), try(2, 1, false, 4, 5),
			step1(1, model.Release, 6, 7), try(2, 1, true, 8, 9)}, true},
		"two at once":           {[]check.Operation{create(1), try(1, 1, true, 2, 3), try(2, 1, true, 4, 5)}, false},
		"two of two":            {[]check.Operation{create(2), try(1, 1, true, 2, 3), try(2, 1, true, 4, 5)}, true},
		"refused without cause": {[]check.Operation{create(1), try(1, 1, false, 2, 3)}, false},
		"a release under way": {[]check.Operation{create(1), try(1, 1, true, 2, 3), step1(1, model.Release, 4, 8),
			try(2, 1, true, 5, 6)}, true},
		"a session that may have ended": {[]check.Operation{create(1), try(1, 1, true, 2, 3),
			step1(1, check.Ends, 2, never), try(2, 1, true, 4, 5)}, true},
		"a wait, and its grant": {[]check.Operation{create(1), try(1, 1, true, 2, 3), queued(2, true, 4, 5),
			step1(1, model.Release, 6, 7), step1(2, check.Owns, 4, 8)}, true},
		"a grant without a release": {[]check.Operation{create(1), try(1, 1, true, 2, 3), queued(2, true, 4, 5),
			step1(2, check.Owns, 4, 8)}, false},
		"a wait for what is free": {[]check.Operation{create(1), queued(2, true, 4, 5)}, false},
		"the queue is overtaken": {[]check.Operation{create(2), try(1, 2, true, 2, 3), queued(2, true, 4, 5),
			queued(3, true, 6, 7), step1(2, check.Leaves, 8, 9), step1(1, model.Release, 10, 11),
			try(4, 2, true, 12, 13), step1(3, check.Owns, 6, 14)}, false},
		"described": {[]check.Operation{create(1), try(1, 1, true, 2, 3), described(owner(1), 4, 5)}, true},
		"described too late": {[]check.Operation{create(1), try(1, 1, true, 2, 3), step1(1, model.Release, 4, 5),
			described(owner(1), 6, 7)}, false},
	} {
		file := filepath.Join(t.TempDir(), "history")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := check.WriteOperations(f, test.list); err != nil {
			t.Fatal(err)
		}
		*out = t.TempDir()
		var sum summary
		if err := sum.judge(file); err != nil || sum.unknown != 0 || (sum.good == 1) != test.good {
			t.Errorf("%s: %+v, %v, want an order: %v", name, sum, err, test.good)
		}
		if pages, _ := filepath.Glob(filepath.Join(*out, "*.html")); (len(pages) == 0) != test.good {
			t.Errorf("%s: pages %v", name, pages)
		}
	}
}
