package streams

import "github.com/coordd/coordd/coordination"

// The bounds of the messages that a turn delivers: to all streams, and to one. One command may cause a hundred
// thousand messages, as when a session with many locks ends for which another one waits. They are delivered in
// slices, one a turn, so that others are served between two slices; messages to other streams overtake those of such
// a stream.
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

// Sinks finds the Sink of a message; a Replica does.
type Sinks interface {
	Sink(m *coordination.Message) (to Sink, known bool)
}

// Length returns how many messages wait.
func (u *Unsaid) Length() int { return len(u.waiting) }

// Say delivers messages that wait, and then new ones, a slice altogether. The rest waits, and so do all messages to a
// stream for which one waits: each stream gets its messages in order.
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

// sayWaiting delivers half a slice of the messages that wait, and returns their number.
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
