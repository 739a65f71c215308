package coordination

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type heaped struct{ value, position int }

func (h *heaped) before(other *heaped) bool { return h.value < other.value }
func (h *heaped) place() *int               { return &h.position }

// A heap under random pushes, removals and changes always has the least element first, and every element in
// its place.
func TestHeap(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var h heapOf[*heaped]
		var all []*heaped
		for step := range 500 {
			switch pick := random.IntN(10); {
			case pick < 5 || len(all) == 0:
				x := &heaped{value: random.IntN(50)}
				all = append(all, x)
				h.push(x)
			case pick < 8:
				at := random.IntN(len(all))
				h.remove(all[at])
				all = slices.Delete(all, at, at+1)
			default:
				x := all[random.IntN(len(all))]
				x.value = random.IntN(50)
				h.fix(x.position)
			}
			checkHeap(t, h, all)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		for last := -1; len(h) > 0; {
			first := h[0]
			if first.value < last {
				t.Fatalf("seed %d: %d comes after %d", seed, first.value, last)
			}
			last = first.value
			h.remove(first)
		}
	}
}

func checkHeap(t *testing.T, h heapOf[*heaped], all []*heaped) {
	if len(h) != len(all) {
		t.Errorf("%d elements, want %d", len(h), len(all))
	}
	for _, x := range all {
		if h[x.position] != x || x.value < h[0].value {
			t.Errorf("value %d at %d, first is %d", x.value, x.position, h[0].value)
		}
	}
}
