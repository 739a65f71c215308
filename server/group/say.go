package group

import "github.com/coordd/coordd/coordination"

// say hands on what is to be told to streams and to those who wait for calls. The turn is held.
func (g *Group) say(work coordination.Work[*call]) {
	g.unsaid.Say(g.link, work.Messages, g.replica)
	if g.unsaid.Length() > 0 {
		g.queue.bell.Ring()
	}
	for i := range work.Answers {
		a := &work.Answers[i]
		a.Waiter.done <- callAnswer{outcome: a.Outcome, err: callErrors[a.End]}
		*a = coordination.Answer[*call]{}
	}
}
