package faults_test

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/server/standin/faults"
)

// A watch fires once: changes after a spurious notice are not notified.
func TestSpuriousNotice(t *testing.T) {
	r := start(t)
	c, other := r.attach(0), r.attach(0)
	c.send(create(1, "config"))
	c.next()
	r.noWatch(faults.Filter{}, "")
	c.send(describe(2, "config", true))
	if !c.next().GetDescribeSemaphoreResult().GetWatchAdded() {
		t.Fatal("no watch")
	}
	r.noWatch(faults.Filter{Session: c.session}, "another")
	if n, err := r.SpuriousNotice(faults.Filter{Session: c.session}, "config"); n != 1 || err != nil {
		t.Errorf("%d watches: %v", n, err)
	}
	if got := c.next().GetDescribeSemaphoreChanged(); got.GetReqId() != 2 || got.GetDataChanged() ||
		got.GetOwnersChanged() {
		t.Errorf("got %v", got)
	}
	other.send(update(1, "config", "x"))
	other.next()
	c.send(describe(3, "config", true)) // its answer comes behind the notice that the server has given
	if got := c.next().GetDescribeSemaphoreResult(); string(got.GetSemaphoreDescription().GetData()) != "x" {
		t.Errorf("got %v", got)
	}
	other.send(update(2, "config", "y"))
	if got := c.next().GetDescribeSemaphoreChanged(); got.GetReqId() != 3 || !got.GetDataChanged() {
		t.Errorf("got %v", got)
	}
	r.noWatch(faults.Filter{}, "")
}

// noWatch wants a notice to miss.
func (r *rig) noWatch(f faults.Filter, semaphore string) {
	r.Helper()
	if n, err := r.SpuriousNotice(f, semaphore); n != 0 || !errors.Is(err, faults.ErrMissed) {
		r.Errorf("%d watches: %v", n, err)
	}
}
