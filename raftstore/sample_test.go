package raftstore

import "flag"

var thorough = flag.Bool("thorough", false, "try what random tests of the store would only take a sample of")

// sample returns how many cases a test tries: few, or many with -thorough.
func sample(few, many int) int {
	if *thorough {
		return many
	}
	return few
}
