package coordination

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// crowd is a coordination node with many sessions, and a semaphore "lock" that they own and wait for.
type crowd struct {
	*rig
	node     *node
	streams  []StreamID
	sessions []SessionID // theirs
	sequence Sequence
}

func newCrowd(t *testing.T, sessions int, limit uint64) *crowd {
	t.Helper()
	c := &crowd{rig: newRig(t)}
	c.lax = true
	c.node = c.machine.nodes[c.createNode("/local/a", relaxed)]
	c.streams, c.sessions = make([]StreamID, sessions), make([]SessionID, sessions)
	for i := range sessions {
		c.join(i)
	}
	c.do(0, Request{Kind: RequestCreate, Name: "lock", Limit: limit, Data: []byte("about")})
	return c
}

// join opens the stream of a session, which is a new one unless it had one before.
func (c *crowd) join(session int) {
	c.streams[session], c.sessions[session] = c.attach(AttachRequest{Path: "/local/a",
		Session: c.sessions[session], TimeoutMillis: 1000})
}

// do executes a request of a session and returns the messages.
func (c *crowd) do(session int, request Request) []Message {
	c.t.Helper()
	c.sequence++
	c.request(c.streams[session], c.sequence, request)
	c.applyAll()
	said := c.messages
	c.messages = nil
	return said
}

// describe returns the present description of the lock, or nil.
func (c *crowd) describe(session int) *SemaphoreDescription {
	c.t.Helper()
	said := c.do(session, Request{Kind: RequestDescribe, Name: "lock", IncludeOwners: true,
		IncludeWaiters: true})
	if len(said) != 1 || said[0].Kind != MessageDescribed {
		c.t.Fatalf("said %v", said)
	}
	return said[0].Description
}

func (c *crowd) sem() *semaphore { return c.node.semaphores["lock"] }

// walked returns the lock's links as a walk finds them.
func (c *crowd) walked() (owners, waiters []LinkDescription) {
	for l := c.sem().owners.first; l != nil; l = l.next {
		owners = append(owners, LinkDescription{Order: l.order, Session: l.session.id, Count: l.count,
			Data: l.data})
	}
	for l := c.sem().waiters.first; l != nil; l = l.next {
		waiters = append(waiters, LinkDescription{Order: l.order, Session: l.session.id,
			TimeoutMillis: l.timeoutMillis, Count: l.count, Data: l.data})
	}
	return owners, waiters
}

func sameLinks(view *Links, want []LinkDescription) error {
	at := 0
	for l := range view.All() {
		if at == len(want) || !want[at].equals(l) {
			return fmt.Errorf("link %d of %d is %+v", at, len(want), l)
		}
		at++
	}
	if of := LinksOf(want); at != len(want) || view.Len() != at || view.Bytes() != of.Bytes() {
		return fmt.Errorf("%d links, says %d and %d bytes; want %d with %d bytes", at, view.Len(),
			view.Bytes(), len(want), of.Bytes())
	}
	return nil
}

// copied counts the links that the later of two views does not share with the earlier one.
func copied(earlier, later *Links) (links int) {
	seen := make(map[*LinkDescription]bool)
	for _, x := range earlier.many {
		for i := range x.links {
			seen[&x.links[i]] = true
		}
	}
	for _, x := range later.many {
		for i := range x.links {
			if !seen[&x.links[i]] {
				links++
			}
		}
	}
	return links + len(later.few)
}

// TestTurnsLookAtFewLinks counts the links that are looked at in the turns of the group for the descriptions
// of a semaphore with ten thousand owners or waiters: none by a describe, and by a change that follows one no
// more than one piece of them.
func TestTurnsLookAtFewLinks(t *testing.T) {
	const sessions = 10_000
	for _, limit := range []uint64{Infinite, 1} {
		c := newCrowd(t, sessions, limit)
		for i := range sessions {
			c.do(i, Request{Kind: RequestAcquire, Name: "lock", Count: 1, TimeoutMillis: Infinite,
				Data: []byte{byte(i)}})
		}
		wantOwners, wantWaiters := c.walked()
		sem := c.sem()
		list := &sem.owners
		if limit == 1 {
			list = &sem.waiters
		}
		first, last := list.first, list.last
		list.first, list.last = nil, nil // and no link to walk over
		before := c.describe(0)
		list.first, list.last = first, last
		for _, wrong := range []error{sameLinks(&before.Owners, wantOwners),
			sameLinks(&before.Waiters, wantWaiters)} {
			if wrong != nil {
				t.Fatal(wrong)
			}
		}
		if allocated := testing.AllocsPerRun(100, func() { describe(sem, true, true) }); allocated > 3 {
			t.Errorf("a description takes %v allocations", allocated)
		}

		look := func(what string, change func()) {
			t.Helper()
			links := func(d *SemaphoreDescription) *Links {
				if limit == 1 {
					return &d.Waiters
				}
				return &d.Owners
			}
			before := c.describe(0)
			change()
			if n := copied(links(before), links(c.describe(0))); n > pieceLinks {
				t.Errorf("limit %d, %s: %d links are copied", limit, what, n)
			}
		}
		for _, i := range []int{0, 1, sessions / 2, sessions - 2, sessions - 1} {
			look("other data", func() {
				c.do(i, Request{Kind: RequestAcquire, Name: "lock", Count: 1, TimeoutMillis: 5,
					Data: []byte("other")})
			})
			look("release", func() { c.do(i, Request{Kind: RequestRelease, Name: "lock"}) })
			look("acquire", func() {
				c.do(i, Request{Kind: RequestAcquire, Name: "lock", Count: 1, TimeoutMillis: 6})
			})
		}
		look("the end of a session", func() { c.do(7, Request{Kind: RequestStop}) })
		look("data", func() { c.do(0, updateLock("other")) })
		if wrong := sameLinks(&before.Owners, wantOwners); wrong != nil {
			t.Error(wrong)
		}
		if wrong := sameLinks(&before.Waiters, wantWaiters); wrong != nil {
			t.Error(wrong)
		}
		if err := c.machine.Check(); err != nil {
			t.Error(err)
		}
	}
}

// capture is a description and what a walk found at the same index.
type capture struct {
	*SemaphoreDescription
	owners, waiters []LinkDescription
	data            string
	count           uint64
}

func (c *capture) check() error {
	if err := sameLinks(&c.Owners, c.owners); err != nil {
		return fmt.Errorf("owners: %w", err)
	}
	if err := sameLinks(&c.Waiters, c.waiters); err != nil {
		return fmt.Errorf("waiters: %w", err)
	}
	if string(c.Data) != c.data || c.Count != c.count {
		return fmt.Errorf("data %q and count %d, want %q and %d", c.Data, c.Count, c.data, c.count)
	}
	return nil
}

// TestDescriptionsDoNotChange takes descriptions of a semaphore whose owners and waiters come and go at
// random, and reads them again and again beside that: each shows what was there at its index, whatever came
// later. With -race it shows that what is described is never written.
func TestDescriptionsDoNotChange(t *testing.T) {
	const sessions, steps = 1600, 12_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c := newCrowd(t, sessions, 700)
	var readers sync.WaitGroup
	var kept []*capture
	read := func(captures []*capture) {
		for _, d := range captures {
			readers.Go(func() {
				if err := d.check(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	most, pieces := 0, false
	for step := range steps {
		i := random.IntN(len(c.streams))
		growing := step/3000%2 == 0
		switch what := random.IntN(1000); {
		case what < 3:
			c.do(i, updateLock(fmt.Sprint("step ", step)))
		case what < 10:
			c.do(i, Request{Kind: RequestStop})
			c.sessions[i] = 0
			c.join(i)
		case what == 11 && step > steps/2:
			c.do(i, Request{Kind: RequestDelete, Name: "lock", Force: true})
			c.do(i, Request{Kind: RequestCreate, Name: "lock", Limit: 700})
		case what == 12: // the leader is lost
			c.lead()
			for i := range c.streams {
				c.join(i)
			}
		case what < 850 == growing:
			c.do(i, Request{Kind: RequestAcquire, Name: "lock", Count: 1 + random.Uint64N(2),
				TimeoutMillis: 1 + random.Uint64N(1000), Data: make([]byte, random.IntN(9))})
		default:
			c.do(i, Request{Kind: RequestRelease, Name: "lock"})
		}
		pieces = pieces || c.sem().owners.pieces != nil && c.sem().waiters.pieces != nil
		if step%40 == 0 {
			d := &capture{SemaphoreDescription: c.describe(i)}
			d.owners, d.waiters = c.walked()
			d.data, d.count = string(c.sem().data), c.sem().held
			most = max(most, len(d.owners)+len(d.waiters))
			kept = append(kept[max(0, len(kept)-20):], d)
			read(kept)
		}
		if step%100 == 0 {
			if err := c.machine.Check(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
	}
	c.call(&DropNode{Path: []string{"local", "a"}})
	c.applyAll()
	read(kept)
	readers.Wait()
	if most < 1000 || !pieces {
		t.Errorf("%d links at most, both lists long: %v", most, pieces)
	}
}

// TestPiecesFollowTheList makes a long list grow and shrink: its pieces stay few, and are gone when it is short again.
func TestPiecesFollowTheList(t *testing.T) {
	const length = 20_000
	for name, order := range map[string]func(i int) int{
		"from the front": func(i int) int { return i },
		"from the back":  func(i int) int { return length - 1 - i },
		"everywhere":     func(i int) int { return i * 7919 % length },
	} {
		list, session := new(linkList), &session{id: 1}
		links := make([]*link, length)
		for i := range links {
			links[i] = &link{session: session, order: OrderID(i + 1), count: 1}
			list.append(links[i])
		}
		for i := range links {
			list.remove(links[order(i)])
			if i%100 != 0 {
				continue
			}
			if err := list.checkPieces(); err != nil {
				t.Fatalf("%s: %d links: %v", name, list.length, err)
			}
			if list.pieces == nil != (list.length < maxWalk/2) {
				t.Fatalf("%s: pieces of %d links: %v", name, list.length, list.pieces != nil)
			}
			if list.pieces != nil && len(list.pieces.list) > 4*list.length/pieceLinks+2 {
				t.Fatalf("%s: %d pieces of %d links", name, len(list.pieces.list), list.length)
			}
		}
	}
}

// TestCheckFindsBrokenPieces provokes what Check has to say of pieces.
func TestCheckFindsBrokenPieces(t *testing.T) {
	for want, spoil := range map[string]func(ll *linkList){
		"has no pieces":                  func(ll *linkList) { ll.pieces = nil },
		"out of order or as it was":      func(ll *linkList) { ll.first.count++ },
		"link 1000 is in no piece":       func(ll *linkList) { ll.pieces.remove(ll.last) },
		"piece 1 has 0 links behind one": func(ll *linkList) { ll.pieces.list[1].links = nil },
	} {
		list, session := new(linkList), &session{id: 1}
		for i := range 1000 {
			list.append(&link{session: session, order: OrderID(i + 1), count: 1})
		}
		if err := list.checkPieces(); err != nil {
			t.Fatal(err)
		}
		spoil(list)
		if err := list.checkPieces(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check says %v, want %s", err, want)
		}
	}
}

// TestPiecesWithoutAView: what no description has is changed in place, and a link that is gone takes its data
// with it.
func TestPiecesWithoutAView(t *testing.T) {
	list, session := new(linkList), &session{id: 1}
	for i := range 1000 {
		list.append(&link{session: session, order: OrderID(i + 1), count: 1, data: []byte("data")})
	}
	links := list.pieces.list[0].links
	list.pieces.update(list.first)
	if &list.pieces.list[0].links[0] != &links[0] {
		t.Error("a change copied a piece that no view has")
	}
	second := list.first.next
	for _, l := range []*link{second, list.first} {
		list.remove(l)
	}
	if links[0].Data != nil || links[pieceLinks-1].Data != nil || links[1].Order != 3 {
		t.Errorf("links that are gone are kept: %+v, %+v", links[0], links[pieceLinks-1])
	}
}
