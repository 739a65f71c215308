package codec

import "github.com/coordd/coordd/coordination"

// Since is the version of the format with which a command, as it is written, came: a program of an older version does
// not read it. This is the one place that says so. A command that is added, or that makes use of a field that was added,
// gets a case with the Version that is new then; the leader writes it once every server of the cluster can read it.
func Since(coordination.Command) uint64 { return 1 }
