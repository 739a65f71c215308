package checkpoint

import (
	"slices"
	"strings"
)

// Prefixes is an immutable set of key prefixes, none of which begins with another.
type Prefixes struct{ sorted []string }

// NewPrefixes returns the set of all these. It may use the slice.
func NewPrefixes(prefixes []string) Prefixes {
	slices.Sort(prefixes)
	kept := prefixes[:0]
	for _, p := range prefixes {
		if n := len(kept); n == 0 || !strings.HasPrefix(p, kept[n-1]) {
			kept = append(kept, p)
		}
	}
	return Prefixes{slices.Clip(kept)}
}

// Covers reports whether a key begins with one of the prefixes.
func (s Prefixes) Covers(key []byte) bool {
	if len(s.sorted) == 0 {
		return false
	}
	at, found := slices.BinarySearchFunc(s.sorted, key,
		func(p string, k []byte) int { return strings.Compare(p, string(k)) })
	return found || at > 0 && strings.HasPrefix(string(key), s.sorted[at-1])
}

// with returns the union with others.
func (s Prefixes) with(others Prefixes) Prefixes {
	return NewPrefixes(slices.Concat(s.sorted, others.sorted))
}
