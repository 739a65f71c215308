package faults_test

import (
	"slices"
	"testing"

	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/server/standin/faults"
)

func TestRequests(t *testing.T) {
	r := start(t)
	c := r.open(&pb.SessionRequest_SessionStart{Path: "local/dir//node", TimeoutMillis: 10_000,
		ProtectionKey: []byte("secret"), Description: "me"})
	c.started()
	c.send(acquire(7, "lock"))
	c.next()
	var kinds []faults.Kind
	for _, q := range r.Requests() {
		kinds = append(kinds, q.Kind)
	}
	if want := []faults.Kind{faults.CreateNode, faults.Start, faults.Acquire}; !slices.Equal(kinds, want) {
		t.Fatalf("got %v, want %v", kinds, want)
	}
	q := r.Requests()[2]
	if q.Node != node || q.Session != c.session || q.Name != "lock" || q.ReqID != 7 || !q.Ephemeral ||
		q.Server != 1 || q.Client == "" {
		t.Errorf("got %+v", q)
	}
	r.ForgetRequests()
	if left := r.Requests(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// The requests that are remembered have 1 MiB, whatever clients send.
func TestRequestsAreBounded(t *testing.T) {
	r := start(t)
	c := r.attach(0)
	c.send(create(1, "config"))
	c.next()
	const many = 400
	for i := range uint64(many) {
		c.send(update(i, "config", string(make([]byte, 100_000))))
		c.next()
	}
	kept, bytes := r.Requests(), 0
	for _, q := range kept {
		bytes += 256 + len(q.Data) + len(q.Client) + len(q.Node) + len(q.Name) + len(q.SDK)
	}
	if bytes > 1<<20 || bytes < 1<<19 {
		t.Errorf("%d requests with %d bytes", len(kept), bytes)
	}
	if last := kept[len(kept)-1]; last.ReqID != many-1 {
		t.Errorf("the last one is %d", last.ReqID)
	}
	if dropped := r.RequestsDropped(); dropped != many+3-uint64(len(kept)) {
		t.Errorf("%d are dropped, and %d kept", dropped, len(kept))
	}
}
