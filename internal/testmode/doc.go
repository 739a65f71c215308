// Package testmode lets tests declare in which of the two runs of make test they take part: the one with the race
// detector, or the one without. A test that declares nothing takes part in the first.
//
// The script .ci/test finds the declarations in the sources, so a test that is renamed or moved keeps its mode.
package testmode
