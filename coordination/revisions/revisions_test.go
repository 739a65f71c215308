package revisions

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
)

func TestMain(m *testing.M) { testmode.Pure(m) }

// naive keeps all revisions in one list, in the order in which they came.
type naive []kept

type kept struct {
	node, semaphore uint64
	Revision
}

func (n *naive) remove(gone func(k kept) bool, most int) {
	var rest naive
	for _, k := range *n {
		if most > 0 && gone(k) {
			most--
			continue
		}
		rest = append(rest, k)
	}
	*n = rest
}

func (n *naive) sizes(wanted func(k kept) bool) (count, data int) {
	for _, k := range *n {
		if wanted(k) {
			count++
			data += len(k.Data)
		}
	}
	return count, data
}

func (n *naive) add(node, semaphore uint64, r Revision) {
	if len(r.Data) > MaxSemaphoreBytes {
		r.Data, r.Kept = nil, false
	}
	*n = append(*n, kept{node, semaphore, r})
	own := func(k kept) bool { return k.node == node && k.semaphore == semaphore }
	for count, data := n.sizes(own); count > MaxOfSemaphore || data > MaxSemaphoreBytes; count, data = n.sizes(own) {
		n.remove(own, 1)
	}
}

// bytes returns what the revisions of a node take, of all for 0.
func (n *naive) bytes(node uint64) int {
	count, data := n.sizes(func(k kept) bool { return node == 0 || k.node == node })
	return count*recordBytes + data
}

// shrink removes the oldest revisions of nodes that take much, as long as there are too many. Of nodes that may lose
// some it takes one of which the store has less.
func (n *naive) shrink(s *Store) bool {
	for n.bytes(0) > MaxBytes {
		shrinks := uint64(0)
		for node := range uint64(4) {
			left := 0
			if s.nodes[node] != nil {
				left = s.nodes[node].bytes
			}
			if n.bytes(node) > left && node > 0 {
				shrinks = node
			}
		}
		for node := range uint64(4) {
			if node > 0 && n.bytes(node) >= 2*n.bytes(shrinks) {
				return false
			}
		}
		if shrinks == 0 {
			return false
		}
		n.remove(func(k kept) bool { return k.node == shrinks }, 1)
	}
	return true
}

// TestStore compares a Store with a naive one, beyond each of its limits.
func TestStore(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, most := range []int{100, 8 << 10, MaxSemaphoreBytes + 2} {
		var s Store
		var m naive
		full := false
		for version := range uint64(3000) {
			node, semaphore := 1+min(random.Uint64N(20), 2), 1+random.Uint64N(300) // most are the third's
			switch n := random.IntN(1000); {
			case n == 0:
				s.ForgetNode(node)
				m.remove(func(k kept) bool { return k.node == node }, len(m))
			case n < 10:
				s.Forget(node, semaphore)
				m.remove(func(k kept) bool { return k.node == node && k.semaphore == semaphore }, len(m))
			default:
				r := Revision{Version: version, Data: bytes.Repeat([]byte("x"), random.IntN(most)), Kept: true}
				full = full || s.bytes+recordBytes+len(r.Data) > MaxBytes && len(r.Data) <= MaxSemaphoreBytes
				s.Add(node, semaphore, r)
				if m.add(node, semaphore, r); !m.shrink(&s) {
					t.Fatalf("seed %d, most %d, version %d: a node that has few loses some", seed, most, version)
				}
			}
			var want []Revision
			for _, k := range m {
				if k.node == node && k.semaphore == semaphore {
					want = append(want, k.Revision)
				}
			}
			if got := s.Of(node, semaphore); !reflect.DeepEqual(got, want) || s.bytes != m.bytes(0) {
				t.Fatalf("seed %d, most %d, version %d: %d are kept in %d bytes, want %d in %d", seed, most, version,
					len(got), s.bytes, len(want), m.bytes(0))
			}
		}
		if full != (most > MaxSemaphoreBytes) {
			t.Errorf("seed %d, most %d: the store was full: %v", seed, most, full)
		}
		for node := range uint64(4) {
			s.ForgetNode(node)
		}
		if s.bytes != 0 || len(s.nodes) != 0 {
			t.Errorf("seed %d: %d bytes are left of nothing", seed, s.bytes)
		}
	}
}
