package statelimit

import (
	"testing"

	"github.com/coordd/coordd/coordination"
)

// TestFirstLimits has what a cluster gets that has no limits yet.
func TestFirstLimits(t *testing.T) {
	given := coordination.DefaultLimits()
	given.State = 5 << 20
	for _, c := range []struct {
		configured coordination.Limits
		used, want uint64
	}{
		{coordination.DefaultLimits(), 1000, coordination.DefaultStateBytes},
		{coordination.DefaultLimits(), coordination.DefaultStateBytes / 2, coordination.DefaultStateBytes},
		// it was there before
		{coordination.DefaultLimits(), coordination.DefaultStateBytes, 2 * coordination.DefaultStateBytes},
		{given, 1000, 5 << 20},
		{given, 6 << 20, 5 << 20},
	} {
		if got := firstLimits(c.configured, c.used); got != (coordination.StateLimits{State: c.want,
			Reserve: c.want / 16, Links: coordination.MaxLinks}) {
			t.Errorf("%+v with %d bytes in use: %+v, want %d", c.configured, c.used, got, c.want)
		}
	}
}
