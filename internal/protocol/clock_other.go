//go:build !linux

package protocol

import "time"

// now is a time that never goes back.
func now() time.Duration { return time.Since(processStart) }

var processStart = time.Now()
