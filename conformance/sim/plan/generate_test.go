package plan

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestSeedGivesOnePlan(t *testing.T) {
	for seed := range uint64(200) {
		if a, b := Generate(seed), Generate(seed); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d gives %+v and %+v", seed, a, b)
		}
	}
}

// valid returns the first reason why a plan cannot be run.
func (p *Plan) valid() error {
	ruined := make(map[int]bool)
	members := 0
	for _, s := range p.Servers {
		if s.Member {
			members++
		}
		if s.ClockPPM < -50_000 || s.ClockPPM > 50_000 {
			return fmt.Errorf("clock of %s: %d ppm", s.Name, s.ClockPPM)
		}
	}
	for _, e := range p.Events {
		switch {
		case e.At < Duration(time.Second)/4 || e.At > p.Virtual+Duration(3*time.Second):
			return fmt.Errorf("event out of its time: %+v", e)
		case e.Server >= len(p.Servers) || e.Other >= len(p.Servers):
			return fmt.Errorf("event of no server: %+v", e)
		case len(p.Servers) > 1 && e.Server == e.Other:
			return fmt.Errorf("event between a server and itself: %+v", e)
		case e.Kind == Rot || e.Kind == Wipe:
			ruined[e.Server] = true
		}
	}
	switch {
	case 2*len(ruined) >= members && len(ruined) > 0:
		return fmt.Errorf("%d of %d disks are ruined", len(ruined), members)
	case !slices.IsSortedFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) }):
		return fmt.Errorf("events are not in order")
	case len(p.Clients) == 0 || len(p.Nodes) == 0:
		return fmt.Errorf("%d clients, %d nodes", len(p.Clients), len(p.Nodes))
	}
	for _, c := range p.Clients {
		if c.Node >= len(p.Nodes) || c.Server >= len(p.Servers) || c.Pipeline < 1 || c.Names < 1 || c.Timeout <= 0 {
			return fmt.Errorf("client %+v", c)
		}
	}
	return nil
}

// Every plan can be run, and together they have everything, in the shares that are wanted.
func TestPlansAreValidAndDifferent(t *testing.T) {
	const seeds = 5000
	kinds, clients, servers := make(map[Kind]int), make(map[ClientKind]int), make(map[int]int)
	long := 0
	for seed := range uint64(seeds) {
		p := Generate(seed)
		if err := p.valid(); err != nil {
			t.Fatalf("seed %d (%s): %v", seed, p.Profile, err)
		}
		for _, e := range p.Events {
			kinds[e.Kind]++
		}
		for _, c := range p.Clients {
			clients[c.Kind]++
		}
		servers[len(p.Servers)]++
		if p.Virtual > Duration(15*time.Second) {
			long++
		}
	}
	t.Logf("%v\n%v\n%v, %d long", kinds, clients, servers, long)
	for _, kind := range append(append([]Kind{Add, Remove, Promote}, anyServers...), severalServers...) {
		if kinds[kind] < seeds/200 {
			t.Errorf("%s happens %d times in %d plans", kind, kinds[kind], seeds)
		}
	}
	for _, kind := range Kinds {
		if clients[kind] < seeds/100 {
			t.Errorf("%d clients are %s in %d plans", clients[kind], kind, seeds)
		}
	}
	for n, share := range map[int]float64{1: 0.37, 3: 0.45, 5: 0.04} {
		if got := float64(servers[n]) / seeds; got < share-0.05 || got > share+0.05 {
			t.Errorf("%.2f of the plans have %d servers, want about %.2f", got, n, share)
		}
	}
	if long < seeds/200 || long > seeds/50 {
		t.Errorf("%d of %d plans are long", long, seeds)
	}
}
