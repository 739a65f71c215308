package main

import (
	"os"
	"testing"

	"github.com/coordd/coordd/conformance/mutation/plant"
)

// Every planted defect fits the code as it is now. Where one does not, the code was changed: change its old text.
func TestDefectsApply(t *testing.T) {
	list, err := plant.Read(os.DirFS("../../.."), defectFolders[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 14 {
		t.Errorf("%d defects", len(list))
	}
	for _, d := range list {
		if d.Seeds == 0 {
			t.Errorf("%s names no number of seeds", d.Name)
		}
	}
	if _, err := plant.All("../../..", t.TempDir(), list); err != nil {
		t.Error(err)
	}
}
