//go:build race

package testmode

// Race reports whether the race detector watches the tests.
const Race = true
