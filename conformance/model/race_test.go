//go:build race

package model

// seqsDefault is smaller here, because the race detector makes everything some ten times slower.
const seqsDefault = 400
