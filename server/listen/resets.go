package listen

import "time"

// resetMeter allows a burst of resets, and more as time goes by. A client that resets streams as fast as it
// opens them, or has the server reset them, makes the server work for nothing, and stays below the limit of open
// streams.
type resetMeter struct {
	allowance float64
	at        time.Time
}

func (m *resetMeter) allow(resets int, limits Limits, now time.Time) bool {
	earned := now.Sub(m.at).Seconds() * float64(limits.ResetsPerSecond)
	m.allowance = min(m.allowance+earned, float64(limits.ResetBurst)) - float64(resets)
	m.at = now
	return m.allowance >= 0
}
