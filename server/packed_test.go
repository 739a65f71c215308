package server

import (
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestFewResultsAreMadeAtOnce has as many results made as may be at once: further descriptions wait until
// their time is over, and are made when it is their turn; what needs no result goes on.
func TestFewResultsAreMadeAtOnce(t *testing.T) {
	s, conn := startTest(t, nil)
	scheme := Ydb_Scheme_V1.NewSchemeServiceClient(conn)
	all := s.calls.Packing.Limit()
	s.calls.Packing.Adjust(all)
	list := func(timeout *durationpb.Duration) Ydb.StatusIds_StatusCode {
		answer, err := scheme.ListDirectory(t.Context(), &Ydb_Scheme.ListDirectoryRequest{Path: "/local",
			OperationParams: &Ydb_Operations.OperationParams{OperationTimeout: timeout}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOperation().GetStatus()
	}
	if got := list(durationpb.New(20 * time.Millisecond)); got != Ydb.StatusIds_TIMEOUT {
		t.Errorf("one more is answered with %v", got)
	}
	if answer, err := scheme.MakeDirectory(t.Context(),
		&Ydb_Scheme.MakeDirectoryRequest{Path: "/local/a"}); err != nil ||
		answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("what has no result: %v, %v", answer, err)
	}
	s.calls.Packing.Release(1)
	if got := list(nil); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("when it is its turn: %v", got)
	}
	s.calls.Packing.Release(all - 1)
}
