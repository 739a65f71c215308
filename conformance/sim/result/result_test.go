package result

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/sim/plan"
)

func TestLastLine(t *testing.T) {
	r := Result{Seed: 7, Profile: "short", Verdict: Broken, Violations: []string{"a\nb", `{"c"}`},
		Hash:   "0f",
		Counts: map[string]int64{"fault cut": 2}, Marks: map[string]int64{"election": 0},
		Virtual: plan.Duration(time.Second)}
	output := bytes.NewBufferString("something\n{}\n")
	if err := r.Print(output); err != nil {
		t.Fatal(err)
	}
	if got, ok := Parse(output.Bytes()); !ok || !reflect.DeepEqual(got, r) {
		t.Errorf("%v, %v", got, ok)
	}
	for _, other := range []string{"", "{}", "panic: x\n", output.String() + "more\n"} {
		if got, ok := Parse([]byte(other)); ok {
			t.Errorf("%q: %v", other, got)
		}
	}
}
