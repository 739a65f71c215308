package group

import (
	"testing"

	"github.com/coordd/coordd/coordination"
)

// TestSessionsAgeBeforeAnybodyAsks starts a server again whose only client stays away: nothing is asked of it, and the
// log has to know of the session's absence nevertheless.
func TestSessionsAgeBeforeAnybodyAsks(t *testing.T) {
	config := testConfig(t)
	config.Log.Dir = t.TempDir()
	g := startTest(t, config)
	createNode(t, g, testNode)
	c := openStream(t, g)
	c.start("/local/node", 60_000)
	if r := c.next(t); r.Kind != coordination.ReplyStarted {
		t.Fatalf("started: %+v", r)
	}
	stopTest(t, g)
	g = startTest(t, config)
	defer stopTest(t, g)
	eventually(t, "an absence in the log", func() bool {
		core := g.hold(g.turn.Lock())
		defer g.turn.Unlock()
		for _, row := range core.replica.Machine().AllRows() {
			if s, is := row.(coordination.SessionRow); is && s.AbsentTotalMillis > 0 {
				return true
			}
		}
		return false
	})
}
