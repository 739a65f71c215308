//go:build !simrt

package rt

import "io"

// Patched reports whether the program has the patched runtime.
const Patched = false

func spareThreads()            {}
func start(Config)             {}
func setNode(Node) Node        { return World }
func hold(Node, bool, bool)    {}
func setRate(Node, int64)      {}
func shift(Node, int64, int64) {}

// Goroutines returns the number of goroutines of a node.
func Goroutines(Node) int { return 0 }

// Switches returns how many goroutine switches there have been.
func Switches() uint64 { return 0 }

// WriteSwitches writes the recorded switches, one a line.
func WriteSwitches(io.Writer) error { return nil }
