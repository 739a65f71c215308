package main

import (
	"os"
	"slices"
	"testing"

	"github.com/coordd/coordd/conformance/mutation/plant"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/internal/testmode"
)

// top is the top of the repository, plansFolder has the plans that are kept.
const (
	top         = "../../.."
	plansFolder = top + "/conformance/sim/testdata/plans"
)

// Every planted defect fits the code as it is now. Where one does not, the code was changed: change its old text.
func TestDefectsApply(t *testing.T) {
	list, err := plant.Read(os.DirFS(top), defectFolders[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 14 {
		t.Errorf("%d defects", len(list))
	}
	_, kept, err := readPlans(plansFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		shows := func(p plan.Plan) bool { return slices.Contains(p.Defects, d.Name) }
		if d.Seeds == 0 && !slices.ContainsFunc(kept, shows) {
			t.Errorf("%s names no number of seeds, and no plan shows it", d.Name)
		}
	}
	if err := plant.Check(top, t.TempDir(), list); err != nil {
		t.Error(err)
	}
}

// Every plan that is kept explains itself, and names defects that exist.
func TestPlansAreExplained(t *testing.T) {
	files, list, err := readPlans(plansFolder)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range list {
		if p.Profile == "" || len(p.Defects) == 0 {
			t.Errorf("%s says not what it shows, or names no planted defect", files[i])
		}
		for _, name := range p.Defects {
			if _, err := defects(top, named([]string{name})); err != nil {
				t.Errorf("%s: defect %s: %v", files[i], name, err)
			}
		}
	}
}

// A plan bites if a later seed of it fails with the defect, and not if it fails without as well.
func TestBites(t *testing.T) {
	testmode.WithoutRace(t)
	_, p := testOptions(t)
	for name, want := range map[string]int{"rare": 3, "never": 0} {
		try, o, err := bites(t.Context(), p, plan.Plan{Seed: harmed}, name)
		if err != nil || try != want {
			t.Errorf("defect %s: try %d, should be %d; %s, %v", name, try, want, o.failure, err)
		}
	}
}
