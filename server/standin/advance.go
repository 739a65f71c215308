package standin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/events"
	"github.com/coordd/coordd/server/group/streams"
)

const (
	// settlePatience limits the time for everything that is due at one moment.
	settlePatience = time.Minute
	// maxMoments limits how often in a row something may become due at one moment.
	maxMoments = 10_000
)

var (
	errRealTime = errors.New(
		"time passes by itself: start the stand-in with FakeTime, coordd-standin with --fake-time")
	errAdvancing  = errors.New("another Advance is under way")
	errNeverStill = errors.New("something is due again and again at the same moment")
)

// Advance lets time pass for sessions, waits, grace periods and pings, under FakeTime. It goes from one
// moment at which something is due to the next, and at each waits until all servers have done it, and clients
// have answered their pings: a client that does not within a second of real time is taken for silent. It
// returns what has happened, in its order. One Advance at a time may be under way.
//
// Clients are real, and go by real time: what one does because of what has happened may come after the next
// moment.
func (s *Server) Advance(d time.Duration) []Event {
	s.helper()()
	events, err := s.advance(d)
	if err != nil {
		s.fail("advance: %v\n%s", err, s.situation())
	}
	return events
}

// Elapsed is the time that Advance has let pass so far.
func (s *Server) Elapsed() time.Duration {
	return s.elapsed()
}

func (c *core) elapsed() time.Duration {
	if c.clock == nil {
		return 0
	}
	return time.Duration(c.clock.Now())
}

func (c *core) advance(d time.Duration) ([]Event, error) {
	switch {
	case c.clock == nil:
		return nil, errRealTime
	case d < 0:
		return nil, fmt.Errorf("time does not go back by %v", -d)
	case !c.advancing.TryLock():
		return nil, errAdvancing
	}
	defer c.advancing.Unlock()
	c.turning.Store(true)
	defer c.turning.Store(false)
	log := eventLog{core: c, begun: c.clock.Now()}
	defer log.close()
	if err := c.settle(); err != nil { // what is under way happens before
		return nil, err
	}
	if err := log.open(); err != nil {
		return nil, err
	}
	end := log.begun + coordination.Instant(d)
	for last, moments := coordination.Instant(-1), 0; c.clock.turn(end); moments++ {
		if now := c.clock.Now(); now != last {
			last, moments = now, 0
		}
		if moments == maxMoments {
			return log.events, errNeverStill
		}
		if err := c.settle(); err != nil {
			return log.events, err
		}
		if err := log.read(); err != nil {
			return log.events, err
		}
	}
	return log.events, nil
}

// reminds reports whether clients are pinged by the real clock. While Advance turns the other one they are
// not: a ping that goes out between its look at what clients have to answer and the turn would be overdue
// behind the turn.
func (c *core) reminds() bool { return !c.turning.Load() }

// eventLog collects what happens during an Advance, as the leader sees it.
type eventLog struct {
	*core
	begun  coordination.Instant
	group  *group.Group
	from   *events.Watcher
	events []Event
}

// open begins to watch the present leader.
func (l *eventLog) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), settlePatience)
	defer cancel()
	g, err := l.first(ctx, func(g *group.Group) bool { return g.Leads() || g.Abdicated() })
	if err != nil || g == l.group {
		return err
	}
	l.close()
	l.group, l.from = g, g.Events().Watch(0, 0)
	return nil
}

// read takes what has happened at this moment.
func (l *eventLog) read() error {
	ctx, cancel := context.WithTimeout(context.Background(), settlePatience)
	defer cancel()
	events, err := read(ctx, l.group, l.from, time.Duration(l.clock.Now()-l.begun))
	l.events = append(l.events, events...)
	if errors.Is(err, streams.ErrStopped) { // another one leads by now
		err = nil
	}
	return errors.Join(err, l.open())
}

func (l *eventLog) close() {
	if l.from != nil {
		l.from.Close()
	}
}

// clientPing is a ping that a client has not answered, or, with an Opaque of 0, something that it has not
// read.
type clientPing struct {
	server int
	streams.Unanswered
}

// settle returns when the servers have done everything that is due, and clients have answered, or are silent.
func (c *core) settle() error {
	begun := time.Now()
	var before uint64
	for looks := 0; ; looks++ {
		seen := c.look()
		waiting := c.stillWaits(seen.unanswered)
		switch {
		case seen.waits != "":
		case looks == 0 || seen.activity != before:
		case !waiting:
			return nil
		case time.Since(begun) >= c.settings.pong:
			maps.Copy(c.silent, seen.unanswered)
			return nil
		}
		before = seen.activity
		if time.Since(begun) >= settlePatience+c.settings.pong {
			return fmt.Errorf("the servers do not come to rest: %s",
				cmp.Or(seen.waits, "clients ask again and again"))
		}
		pause(looks)
	}
}

// pause lets others go on: most of what there is to do takes less than the shortest sleep.
func pause(looks int) {
	const busy = 200
	if looks < busy {
		runtime.Gosched()
		return
	}
	time.Sleep(100 * time.Microsecond)
}

// stillWaits reports whether there is a client that has something to answer and was not found silent.
func (c *core) stillWaits(unanswered map[clientPing]bool) bool {
	maps.DeleteFunc(c.silent, func(p clientPing, _ bool) bool { return !unanswered[p] })
	return len(unanswered) > len(c.silent)
}

// look is the observed state of all servers.
type look struct {
	waits      string
	activity   uint64
	unanswered map[clientPing]bool
}

func (c *core) look() look {
	seen := look{unanswered: make(map[clientPing]bool)}
	sent, heard := make(map[streams.RelayEnd]uint64), make(map[streams.RelayEnd]uint64)
	applied := make(map[uint64]bool)
	for i, g := range c.groups() {
		still := g.Still()
		if still.Waits != "" {
			seen.waits = still.Waits
		}
		applied[still.Applied] = true
		seen.activity += still.Turns
		maps.Copy(sent, still.Sent)
		maps.Copy(heard, still.Heard)
		for _, u := range still.Unanswered {
			seen.unanswered[clientPing{i, u}] = true
		}
	}
	for _, n := range sent {
		seen.activity += n
	}
	switch {
	case seen.waits != "":
	case len(applied) > 1:
		seen.waits = "a server has not executed what others have"
	case !maps.Equal(sent, heard):
		seen.waits = "a message is under way between servers"
	}
	return seen
}
