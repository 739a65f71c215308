package scheme

import (
	"fmt"
	"testing"
)

// wideTree has n nodes in /local/d.
func wideTree(b *testing.B, n int) *Tree {
	limits := DefaultLimits()
	limits.Paths, limits.Children = n+2, n+1
	tree, err := NewWithLimits("/local", limits)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if created, answer := tree.createNode(widePath(i), NewNode{ID: NodeID(i + 1)}); !created {
			b.Fatal(answer)
		}
	}
	tree.TakeChanged()
	return tree
}

func widePath(i int) Path { return Path{"local", "d", fmt.Sprint(i * 7919 % 1_000_003)} }

// BenchmarkLookup is the cost of a SessionStart, the parsing of its path included.
func BenchmarkLookup(b *testing.B) {
	tree := wideTree(b, 100_000)
	path := widePath(5).String()
	b.ReportAllocs()
	for b.Loop() {
		if _, found := tree.Lookup(SplitLoose(path)); !found {
			b.Fatal("not found")
		}
	}
}

// BenchmarkCreateDrop creates and drops a node among 100,000 others.
func BenchmarkCreateDrop(b *testing.B) {
	tree := wideTree(b, 100_000)
	path := Path{"local", "d", "x"}
	b.ReportAllocs()
	for b.Loop() {
		if created, answer := tree.createNode(path, NewNode{ID: 1_000_000}); !created {
			b.Fatal(answer)
		}
		if _, answer := tree.dropNode(path); !answer.OK() {
			b.Fatal(answer)
		}
	}
}
