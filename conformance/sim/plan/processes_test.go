package plan

import (
	"slices"
	"testing"
)

// A plan for processes lacks what these cannot do, by name, and one of which nothing is left is refused.
func TestForProcesses(t *testing.T) {
	p := Plan{Servers: []Server{{Name: "s1", ClockPPM: 5}}, Events: []Event{{Kind: Jump}, {Kind: EIO}, {Kind: Jump}}}
	q, left, some := p.ForProcesses(true)
	want := []string{"clock rates", "jump"}
	if !some || len(q.Events) != 1 || q.Events[0].Kind != EIO || !slices.Equal(left, want) {
		t.Errorf("%+v, left out %v", q.Events, left)
	}
	if q.Servers[0].ClockPPM != 0 || p.Servers[0].ClockPPM != 5 || len(p.Events) != 3 {
		t.Errorf("%+v of %+v", q.Servers, p.Servers)
	}
	if q, left, some := p.ForProcesses(false); some {
		t.Errorf("%+v, left out %v", q.Events, left)
	}
}
