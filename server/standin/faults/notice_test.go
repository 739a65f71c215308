package faults_test

import (
	"testing"

	"github.com/coordd/coordd/server/standin/faults"
)

// A watch fires once: what changes behind a spurious notice is not told.
func TestSpuriousNotice(t *testing.T) {
	r := start(t)
	c, other := r.attach(0), r.attach(0)
	c.send(create(1, "config"))
	c.next()
	if n := r.SpuriousNotice(faults.Filter{}, ""); n != 0 {
		t.Errorf("%d watches", n)
	}
	c.send(describe(2, "config", true))
	if !c.next().GetDescribeSemaphoreResult().GetWatchAdded() {
		t.Fatal("no watch")
	}
	if n := r.SpuriousNotice(faults.Filter{Session: c.session}, "another"); n != 0 {
		t.Errorf("%d watches of another semaphore", n)
	}
	if n := r.SpuriousNotice(faults.Filter{Session: c.session}, "config"); n != 1 {
		t.Errorf("%d watches", n)
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
	if n := r.SpuriousNotice(faults.Filter{}, ""); n != 0 {
		t.Errorf("%d watches, although it has fired", n)
	}
}
