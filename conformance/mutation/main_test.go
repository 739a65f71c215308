package main

import (
	"testing"

	"github.com/coordd/coordd/conformance/mutation/plant"
)

// leastMutations is how many defects the suite is checked with.
const leastMutations = 25

// TestMutationsApply wants every defect to fit the code as it is now. Where it does not, the code was
// changed: change the defect's old text, or think of another defect.
func TestMutationsApply(t *testing.T) {
	list, err := plant.Read(testdata, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < leastMutations {
		t.Errorf("%d defects, want %d", len(list), leastMutations)
	}
	if _, err := plant.All("../..", t.TempDir(), list); err != nil {
		t.Error(err)
	}
}
