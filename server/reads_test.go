package server

import (
	"fmt"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// TestLargeListing lists a directory that is larger than the group has room for in one turn.
func TestLargeListing(t *testing.T) {
	s, conn := startTest(t, nil)
	const children = 2500
	made, err := s.group.Read(t.Context(), func(m *coordination.Machine) (made outcome.Outcome) {
		for i := range children {
			var make scheme.Step
			make, made = m.Tree().MakeDirectory(scheme.SplitLoose(fmt.Sprintf("/local/large/%05d", i)), "",
				scheme.Stamp{})
			if !made.OK() {
				break
			}
			make()
		}
		return made
	})
	if err != nil || !made.OK() {
		t.Fatal(made, err)
	}
	answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(conn).ListDirectory(t.Context(),
		&Ydb_Scheme.ListDirectoryRequest{Path: "/local/large"})
	var all Ydb_Scheme.ListDirectoryResult
	if answered(answer, err) != nil || answer.GetOperation().GetResult().UnmarshalTo(&all) != nil ||
		len(all.GetChildren()) != children {
		t.Errorf("%v: %d children", err, len(all.GetChildren()))
	}
}
