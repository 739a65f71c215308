package netguard

import "container/list"

// fairQueue holds the unproven connections. The first one is the oldest of the network that has the most. Every
// operation takes constant time: a flood must not make its own eviction expensive.
type fairQueue struct {
	length int
	lines  map[string]*line // by network; networks without an unproven connection are not in it
	// ofLength holds the lines by their length, in the order in which they reached it. The last list is not
	// empty; index 0 is unused.
	ofLength []*list.List
}

// line holds the unproven connections of one network, the oldest first.
type line struct {
	connections list.List
	place       *list.Element // in ofLength
}

func (q *fairQueue) push(c *Conn) {
	l := q.lines[c.network]
	if l == nil {
		if l = new(line); q.lines == nil {
			q.lines = make(map[string]*line)
		}
		q.lines[c.network] = l
	}
	before := l.connections.Len()
	c.in, c.place = &l.connections, l.connections.PushBack(c)
	q.length++
	q.resort(l, before)
}

func (q *fairQueue) remove(c *Conn) {
	l := q.lines[c.network]
	before := l.connections.Len()
	l.connections.Remove(c.place)
	c.in, c.place = nil, nil
	q.length--
	if q.resort(l, before); l.connections.Len() == 0 {
		delete(q.lines, c.network)
	}
}

// first returns the connection to evict, nil if the queue is empty.
func (q *fairQueue) first() *Conn {
	if q.length == 0 {
		return nil
	}
	longest := q.ofLength[len(q.ofLength)-1].Front().Value.(*line)
	return longest.connections.Front().Value.(*Conn)
}

// resort moves a line whose length has changed by one.
func (q *fairQueue) resort(l *line, before int) {
	if before > 0 {
		q.ofLength[before].Remove(l.place)
	}
	if now := l.connections.Len(); now > 0 {
		for len(q.ofLength) <= now {
			q.ofLength = append(q.ofLength, list.New())
		}
		l.place = q.ofLength[now].PushBack(l)
	}
	for last := len(q.ofLength) - 1; last >= 0 && q.ofLength[last].Len() == 0; last-- {
		q.ofLength = q.ofLength[:last]
	}
}
