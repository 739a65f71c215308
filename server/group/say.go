package group

import "github.com/coordd/coordd/coordination"

// What a turn says at most: to all streams, and to one. One command may have a hundred thousand messages, as
// when a session ends for whose locks another one waits. They are said in slices, one a turn, so that others
// are served between two of them; messages to other streams overtake those of such a stream.
const (
	maxSaid   = 4096
	maxSaidTo = 1024
)

// unsaid holds messages of the leader that no turn has delivered yet.
type unsaid struct {
	waiting []saying
	behind  map[sink]int // how many of waiting each stream has
}

type saying struct {
	to      sink
	message coordination.Message
}

// sinks know where messages go, as a Replica does.
type sinks interface {
	Sink(m *coordination.Message) (to sink, known bool)
}

// say delivers first some of what waits, and then messages. What goes beyond a slice waits, and so does
// everything to a stream for which something waits: each stream hears in order what is said to it.
func (u *unsaid) say(from leaderLink, messages []coordination.Message, sinks sinks) {
	said := u.sayWaiting(from)
	var told map[sink]int
	if len(messages) > maxSaidTo {
		told = make(map[sink]int)
	}
	for i := range messages {
		m := &messages[i]
		switch to, known := sinks.Sink(m); {
		case !known:
		case said < maxSaid && u.behind[to] == 0 && told[to] < maxSaidTo:
			if said++; told != nil {
				told[to]++
			}
			to.deliver(from, m)
		default:
			u.wait(saying{to, *m})
		}
		*m = coordination.Message{}
	}
}

func (u *unsaid) wait(s saying) {
	if u.behind == nil {
		u.behind = make(map[sink]int)
	}
	u.waiting = append(u.waiting, s)
	u.behind[s.to]++
}

// sayWaiting delivers a slice of what waits, and returns how much that is.
func (u *unsaid) sayWaiting(from leaderLink) int {
	n := min(len(u.waiting), maxSaid/2)
	for i := range u.waiting[:n] {
		s := &u.waiting[i]
		s.to.deliver(from, &s.message)
		if u.behind[s.to]--; u.behind[s.to] == 0 {
			delete(u.behind, s.to)
		}
		*s = saying{}
	}
	if u.waiting = u.waiting[n:]; len(u.waiting) == 0 {
		*u = unsaid{}
	}
	return n
}

// say hands on what is to be told to streams and to those who wait for calls. The turn is held.
func (g *Group) say(work coordination.Work[*call]) {
	g.unsaid.say(g.link, work.Messages, g.replica)
	if len(g.unsaid.waiting) > 0 {
		g.queue.bell.Ring()
	}
	for i := range work.Answers {
		a := &work.Answers[i]
		a.Waiter.done <- callAnswer{outcome: a.Outcome, err: callErrors[a.End]}
		*a = coordination.Answer[*call]{}
	}
}
