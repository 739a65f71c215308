package streams

import "github.com/coordd/coordd/coordination"

// What a turn says at most: to all streams, and to one. One command may have a hundred thousand messages, as
// when a session ends for whose locks another one waits. They are said in slices, one a turn, so that others
// are served between two of them; messages to other streams overtake those of such a stream.
const (
	maxSaid   = 4096
	maxSaidTo = 1024
)

// Unsaid holds messages of the leader that no turn has delivered yet.
type Unsaid struct {
	waiting []saying
	behind  map[Sink]int // how many of waiting each stream has
}

type saying struct {
	to      Sink
	message coordination.Message
}

// Sinks know where messages go, as a Replica does.
type Sinks interface {
	Sink(m *coordination.Message) (to Sink, known bool)
}

// Length returns how many messages wait.
func (u *Unsaid) Length() int { return len(u.waiting) }

// Say delivers first some of what waits, and then messages. What goes beyond a slice waits, and so does
// everything to a stream for which something waits: each stream hears in order what is said to it.
func (u *Unsaid) Say(from Link, messages []coordination.Message, sinks Sinks) {
	said := u.sayWaiting(from)
	var told map[Sink]int
	if len(messages) > maxSaidTo {
		told = make(map[Sink]int)
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

func (u *Unsaid) wait(s saying) {
	if u.behind == nil {
		u.behind = make(map[Sink]int)
	}
	u.waiting = append(u.waiting, s)
	u.behind[s.to]++
}

// sayWaiting delivers a slice of what waits, and returns how much that is.
func (u *Unsaid) sayWaiting(from Link) int {
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
		*u = Unsaid{}
	}
	return n
}
