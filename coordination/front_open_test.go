package coordination

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOpenRequests opens and closes requests in any order, beside a plain list.
func TestOpenRequests(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var open openRequests
	var want []Sequence
	for sequence := Sequence(1); sequence < 5000; sequence++ {
		open.add(openRequest{OpenRequest: OpenRequest{Sequence: sequence, Request: &tryLock}})
		want = append(want, sequence)
		for len(want) > 0 && random.IntN(100) < 49+int(sequence/1000) {
			at := random.IntN(len(want))
			open.close(open.find(want[at]))
			if open.find(want[at]) >= 0 {
				t.Fatalf("%d is still open", want[at])
			}
			want = slices.Delete(want, at, at+1)
		}
		var got []Sequence
		for _, r := range open.appendTo(nil) {
			got = append(got, r.Sequence)
		}
		if !slices.Equal(got, want) || len(want) > 0 && open.oldest() != want[0] {
			t.Fatalf("%v are open, want %v", got, want)
		}
		if len(open.list) > 2*len(want)+1 {
			t.Fatalf("%d places for %d open requests", len(open.list), len(want))
		}
	}
}
