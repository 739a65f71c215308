package faults_test

import (
	"slices"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/standin/faults"
)

// The lock is taken, and its owner learns nothing but the end of the stream.
func TestAnswerLost(t *testing.T) {
	r := start(t)
	if err := r.AnswerLost(faults.Acquire, 1); err != nil {
		t.Fatal(err)
	}
	c := r.attach(0)
	c.send(acquire(1, "lock"))
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	if owners := r.owners("lock"); !slices.Equal(owners, []uint64{c.session}) {
		t.Errorf("owned by %v, want %d", owners, c.session)
	}
}

// A session was made of which its client does not know.
func TestAnswerLostOfAStart(t *testing.T) {
	r := start(t)
	if err := r.AnswerLost(faults.Start, 1); err != nil {
		t.Fatal(err)
	}
	c := r.open(&pb.SessionRequest_SessionStart{Path: node, TimeoutMillis: 1000})
	if said, code := c.ended(); len(said) != 0 || code != codes.Unavailable {
		t.Errorf("got %v, %v", said, code)
	}
	if c := r.attach(0); c.session != 2 {
		t.Errorf("the next session is %d", c.session)
	}
}

func TestAnswerLostOfACall(t *testing.T) {
	r := start(t)
	if err := r.AnswerLost(faults.CreateNode, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.nodes().CreateNode(t.Context(),
		&pb.CreateNodeRequest{Path: "/local/other"}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	answer, err := r.nodes().DescribeNode(t.Context(), &pb.DescribeNodeRequest{Path: "/local/other"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("it was not executed: %v, %v", answer, err)
	}
}
