package faults_test

import (
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/server/standin/faults"
)

func TestDelayNext(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.Create, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	// which is pinged every second, and gone if a pong does not reach the server
	c := r.attachFor(0, brief)
	c.send(create(1, "config"))
	c.send(update(2, "config", "x")) // waits behind it
	r.eventually("the create waits", func() bool { return turned.running() == 1 })
	for range 5 {
		r.eventually("another ping", func() bool {
			select {
			case <-c.pings:
				return true
			default:
				return false
			}
		})
	}
	other := r.attach(0)
	other.send(describe(1, "config", false))
	if got := other.next().GetDescribeSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("it was executed at once: %v", got)
	}
	turned.advance(time.Hour)
	if got := c.next().GetCreateSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
	if got := c.next().GetUpdateSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
}

// A request whose client has gone meanwhile is not executed.
func TestDelayOutlivesItsClient(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.Create, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	r.eventually("the create waits", func() bool { return turned.running() == 1 })
	c.cancel()
	r.eventually("nothing waits", func() bool { return turned.running() == 0 })
	other := r.attach(0)
	other.send(describe(1, "config", false))
	if got := other.next().GetDescribeSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Errorf("it was executed: %v", got)
	}
}

func TestDelayNextCall(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.CreateNode, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	created := make(chan Ydb.StatusIds_StatusCode)
	go func() { created <- r.createNode("/local/other") }()
	r.eventually("the call waits", func() bool { return turned.running() == 1 })
	turned.advance(time.Hour)
	if got := <-created; got != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %s", got)
	}
}

// A client whose request is delayed cannot have the stand-in keep more than some MiB of what it says
// meanwhile.
func TestDelayIsBounded(t *testing.T) {
	turned := &clock{}
	r := startOn(t, turned)
	if err := r.DelayNext(faults.Create, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(create(1, "config"))
	r.eventually("the create waits", func() bool { return turned.running() == 1 })
	const many = 40
	sent := make(chan struct{}, many)
	go func() {
		defer close(sent)
		for i := range uint64(many) {
			c.send(update(i+2, "config", string(make([]byte, 1<<20))))
			sent <- struct{}{}
		}
	}()
	r.eventually("8 MiB wait", func() bool { return len(sent) >= 8 })
	for before := -1; before != len(sent); time.Sleep(200 * time.Millisecond) { // until no more are taken
		before = len(sent)
	}
	if n := len(sent); n > 12 { // with what is under way
		t.Errorf("%d MiB were taken", n)
	}
	turned.advance(time.Hour)
	for range many + 1 {
		c.next()
	}
	<-sent
}
