package plan

import (
	"slices"
	"testing"
	"time"
)

func has(p *Plan, kind Kind, server int) bool {
	return slices.ContainsFunc(p.Events, func(e Event) bool { return e.Kind == kind && e.Server == server })
}

// large is a plan in which what fails is hidden.
func large() Plan {
	p := Generate(1)
	p.Servers, p.Events, p.Clients = nil, nil, nil
	for i := range 5 {
		p.Servers = append(p.Servers, Server{Name: string(rune('a' + i)), Member: true})
		p.Clients = append(p.Clients, Client{Kind: Mixed, Timeout: Duration(time.Second), Pipeline: 4, Names: 3,
			Server: i})
	}
	for i := range 40 {
		p.Events = append(p.Events, Event{At: Duration(10+i) * Duration(time.Second) / 10, Kind: Reset, Server: i % 5,
			Other: (i + 1) % 5, N: 100})
	}
	p.Events[17] = Event{At: p.Events[17].At, Kind: Kill, Server: 0, For: Duration(time.Second)}
	p.Events[29] = Event{At: p.Events[29].At, Kind: Cut, Server: 1, Other: 0, For: Duration(time.Second)}
	return p
}

func TestShrinkKeepsWhatFails(t *testing.T) {
	tries := 0
	small := Shrink(large(), func(p Plan) bool {
		tries++
		return has(&p, Kill, 0) && has(&p, Cut, 1) && len(p.Clients) > 0
	})
	t.Logf("%d tries: %+v", tries, small)
	if len(small.Events) != 2 || len(small.Clients) != 1 || len(small.Servers) != 2 || len(small.Nodes) != 1 {
		t.Errorf("%d events, %d clients, %d servers, %d nodes are left", len(small.Events), len(small.Clients),
			len(small.Servers), len(small.Nodes))
	}
	if c := small.Clients[0]; c.Pipeline != 1 || c.Names != 1 || c.Requests != 1 {
		t.Errorf("the client is %+v", c)
	}
	if small.Virtual > Duration(5*time.Second) || small.Events[0].For > Duration(time.Millisecond) {
		t.Errorf("takes %v, its first event %v", small.Virtual, small.Events[0].For)
	}
	if small.Links != (Links{}) || small.Limits != (Limits{}) || small.Yield != 0 {
		t.Errorf("links, limits or yield are left: %+v", small)
	}
	if tries > 300 {
		t.Errorf("%d tries", tries)
	}
}

// What fails only with another order of goroutines is found all the same.
func TestShrinkTriesOtherOrders(t *testing.T) {
	small := Shrink(large(), func(p Plan) bool {
		return has(&p, Kill, 0) && (len(p.Events) > 20 || p.Yield != 0)
	})
	if len(small.Events) != 1 || small.Yield == 0 {
		t.Errorf("%d events are left, with yield %d", len(small.Events), small.Yield)
	}
}

// The caller ends the search when it has no time left.
func TestShrinkEnds(t *testing.T) {
	tries := 0
	small := Shrink(large(), func(p Plan) bool {
		tries++
		return tries < 3 && len(p.Events) > 0
	})
	if len(small.Events) == 0 || len(small.Events) > 20 {
		t.Errorf("%d events are left after two successes", len(small.Events))
	}
	if p := large(); !slices.Equal(Shrink(p, func(Plan) bool { return false }).Events, p.Events) {
		t.Error("a plan of which nothing else fails was changed")
	}
}

// A server is taken out with what happens to it, and the others keep their events.
func TestDroppedServer(t *testing.T) {
	p := large()
	p.dropServer(0)
	if len(p.Servers) != 4 || p.Servers[0].Name != "b" || has(&p, Kill, 0) || has(&p, Cut, 0) {
		t.Errorf("left: %+v", p)
	}
	if err := p.valid(); err != nil {
		t.Error(err)
	}
}
