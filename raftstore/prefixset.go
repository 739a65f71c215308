package raftstore

import (
	"slices"
	"strings"
)

// prefixSet is a small immutable set of key prefixes, none of which begins with another.
type prefixSet struct{ sorted []string }

func newPrefixSet(prefixes []string) prefixSet {
	var s prefixSet
	for _, p := range prefixes {
		s = s.with(p)
	}
	return s
}

// covers tells whether key lies under one of the prefixes.
func (s prefixSet) covers(key []byte) bool {
	if len(s.sorted) == 0 {
		return false
	}
	at, found := slices.BinarySearchFunc(s.sorted, key, func(p string, k []byte) int { return strings.Compare(p, string(k)) })
	return found || at > 0 && strings.HasPrefix(string(key), s.sorted[at-1])
}

// under returns the members that begin with prefix.
func (s prefixSet) under(prefix string) []string {
	from, _ := slices.BinarySearch(s.sorted, prefix)
	to := from
	for to < len(s.sorted) && strings.HasPrefix(s.sorted[to], prefix) {
		to++
	}
	return s.sorted[from:to]
}

func (s prefixSet) with(prefix string) prefixSet {
	at, found := slices.BinarySearch(s.sorted, prefix)
	if found {
		return s
	}
	return prefixSet{slices.Insert(slices.Clone(s.sorted), at, prefix)}
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
