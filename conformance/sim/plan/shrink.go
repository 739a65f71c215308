package plan

import (
	"reflect"
	"slices"
	"time"
)

// Shrink returns a plan that still fails and is as small as it could make it: with fewer events, clients, requests and
// servers, of shorter times. Taking something out moves what goroutines do when, so each plan is tried with three
// values of Yield. It keeps a change only if fails accepts the result, so fails ends the search by returning false.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	s := shrinker{plan: p, fails: fails}
	for changed := true; changed; {
		before := s.plan
		s.events()
		s.clients()
		s.servers()
		s.world()
		s.lengths()
		changed = !reflect.DeepEqual(before, s.plan)
	}
	return s.plan
}

type shrinker struct {
	plan  Plan // fails
	fails func(Plan) bool
}

// try keeps a changed copy of the plan if it fails.
func (s *shrinker) try(change func(*Plan)) bool {
	p := s.plan.clone()
	change(&p)
	if reflect.DeepEqual(p, s.plan) {
		return false
	}
	yields := []uint32{p.Yield}
	if p.Yield == s.plan.Yield {
		yields = append(yields, 0, 1<<12)
	}
	for i, yield := range yields {
		if i > 0 && yield == yields[0] {
			continue
		}
		p.Yield = yield
		if s.fails(p.clone()) {
			s.plan = p
			return true
		}
	}
	return false
}

func (p *Plan) clone() Plan {
	c := *p
	c.Servers, c.Nodes = slices.Clone(p.Servers), slices.Clone(p.Nodes)
	c.Clients, c.Events = slices.Clone(p.Clients), slices.Clone(p.Events)
	return c
}

// without takes parts out of a list of n elements, large ones first: halves, quarters, and so on to single ones.
func without(n func() int, try func(from, to int) bool) {
	for size := max(1, n()/2); ; size /= 2 {
		for from := 0; from < n(); {
			if !try(from, min(from+size, n())) {
				from += size
			}
		}
		if size <= 1 {
			return
		}
	}
}

func (s *shrinker) events() {
	without(func() int { return len(s.plan.Events) }, func(from, to int) bool {
		return s.try(func(p *Plan) { p.Events = slices.Delete(p.Events, from, to) })
	})
}

func (s *shrinker) clients() {
	without(func() int { return len(s.plan.Clients) }, func(from, to int) bool {
		return s.try(func(p *Plan) { p.Clients = slices.Delete(p.Clients, from, to) })
	})
	for i := range s.plan.Clients {
		s.try(func(p *Plan) { p.Clients[i].Pipeline = 1 })
		s.try(func(p *Plan) { p.Clients[i].Names = 1 })
		for most := 1; most < 200; most *= 2 {
			if has := s.plan.Clients[i].Requests; has != 0 && most >= has ||
				s.try(func(p *Plan) { p.Clients[i].Requests = most }) {
				break
			}
		}
	}
}

func (s *shrinker) servers() {
	for i := len(s.plan.Servers) - 1; i >= 0; i-- {
		if len(s.plan.Servers) > 1 {
			s.try(func(p *Plan) { p.dropServer(i) })
		}
	}
	for i := range s.plan.Servers {
		s.try(func(p *Plan) { p.Servers[i].ClockPPM, p.Servers[i].Version = 0, 0 })
	}
}

// dropServer takes out a server and what happens to it.
func (p *Plan) dropServer(gone int) {
	renumbered := func(i int) int {
		if i > gone {
			return i - 1
		}
		return i
	}
	p.Servers = slices.Delete(p.Servers, gone, gone+1)
	p.Events = slices.DeleteFunc(p.Events, func(e Event) bool {
		return e.Server == gone && !e.All || e.Other == gone && e.pairs()
	})
	for i := range p.Events {
		e := &p.Events[i]
		e.Server, e.Other = min(renumbered(e.Server), len(p.Servers)-1), min(renumbered(e.Other), len(p.Servers)-1)
	}
	for i := range p.Clients {
		p.Clients[i].Server = min(renumbered(p.Clients[i].Server), len(p.Servers)-1)
	}
}

// pairs reports whether the event is between two servers.
func (e *Event) pairs() bool {
	switch e.Kind {
	case Cut, OneWay, Delay, SlowLink:
		return true
	}
	return false
}

// world gives up what makes the plan special.
func (s *shrinker) world() {
	s.try(func(p *Plan) { p.Yield = 0 })
	s.try(func(p *Plan) { p.Neighbours = 0 })
	s.try(func(p *Plan) { p.Links = Links{} })
	s.try(func(p *Plan) { p.Limits = Limits{} })
	s.try(func(p *Plan) {
		p.Nodes = p.Nodes[:1]
		for i := range p.Clients {
			p.Clients[i].Node = 0
		}
	})
	for i := range s.plan.Nodes {
		s.try(func(p *Plan) { p.Nodes[i] = Node{} })
	}
}

// lengths halves times and numbers as often as that goes.
func (s *shrinker) lengths() {
	end := Duration(0)
	for _, e := range s.plan.Events {
		end = max(end, e.At+e.For)
	}
	if end += Duration(time.Second); end < s.plan.Virtual {
		s.try(func(p *Plan) { p.Virtual = end })
	}
	for s.plan.Virtual > 1 && s.try(func(p *Plan) {
		p.Virtual /= 2
		p.Events = slices.DeleteFunc(p.Events, func(e Event) bool { return e.At > p.Virtual })
	}) {
	}
	for i := 0; i < len(s.plan.Events); i++ {
		s.try(func(p *Plan) { p.Events[i].All = false })
		for s.plan.Events[i].For > 1000 && s.try(func(p *Plan) { p.Events[i].For = (p.Events[i].For / 2).rounded() }) {
		}
		for s.plan.Events[i].N > 1 && s.try(func(p *Plan) { p.Events[i].N /= 2 }) {
		}
	}
}
