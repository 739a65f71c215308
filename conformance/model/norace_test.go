//go:build !race

package model

// seqsDefault is how many sequences an ordinary test run compares.
const seqsDefault = 2000
