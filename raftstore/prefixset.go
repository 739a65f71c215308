package raftstore

import (
	"slices"
	"strings"
)

// prefixSet is a small immutable set of key prefixes, none of which begins with another.
type prefixSet struct{ sorted []string }

func newPrefixSet(prefixes []string) prefixSet {
	sorted := slices.Sorted(slices.Values(prefixes))
	kept := sorted[:0]
	for _, p := range sorted {
		if n := len(kept); n == 0 || !strings.HasPrefix(p, kept[n-1]) {
			kept = append(kept, p)
		}
	}
	return prefixSet{slices.Clip(kept)}
}

// covers reports whether key lies under one of the prefixes.
func (s prefixSet) covers(key []byte) bool {
	if len(s.sorted) == 0 {
		return false
	}
	at, found := slices.BinarySearchFunc(s.sorted, key,
		func(p string, k []byte) int { return strings.Compare(p, string(k)) })
	return found || at > 0 && strings.HasPrefix(string(key), s.sorted[at-1])
}

// with adds prefixes.
func (s prefixSet) with(prefixes ...string) prefixSet {
	return newPrefixSet(slices.Concat(s.sorted, prefixes))
}

func (s prefixSet) without(prefix string) prefixSet {
	at, found := slices.BinarySearch(s.sorted, prefix)
	if !found {
		return s
	}
	return prefixSet{slices.Delete(slices.Clone(s.sorted), at, at+1)}
}

func (s prefixSet) first() (string, bool) {
	if len(s.sorted) == 0 {
		return "", false
	}
	return s.sorted[0], true
}
