package coordination

import (
	"cmp"
	"iter"
	"slices"
)

const (
	// maxWalk bounds the owners, and the waiters, that a describe walks over, so that no turn of the group looks at
	// more than a thousand links for it. A longer list keeps its description up to date.
	maxWalk = 500
	// pieceLinks bounds the links of a piece of a longer list, and so the cost of a change that meets a view.
	pieceLinks = 256
)

// Links are the owners or the waiters that a description shows, in ascending order id. They never change,
// whatever the semaphore does meanwhile.
type Links struct {
	few    []LinkDescription // of a short list
	many   []piece           // of a long one
	length int
	bytes  uint64 // of the links' data
}

// LinksOf returns the links of a list, which must not change any more.
func LinksOf(list []LinkDescription) Links {
	l := Links{few: list, length: len(list)}
	for i := range list {
		l.bytes += uint64(len(list[i].Data))
	}
	return l
}

// Len is the number of links.
func (l *Links) Len() int { return l.length }

// Bytes bounds the encoded size of the links. It takes no walk.
func (l *Links) Bytes() int { return describedLinksBytes(l.length, l.bytes) }

// All returns the links in their order.
func (l *Links) All() iter.Seq[LinkDescription] {
	return func(yield func(LinkDescription) bool) {
		for _, link := range l.few {
			if !yield(link) {
				return
			}
		}
		for i := range l.many {
			for _, link := range l.many[i].links {
				if !yield(link) {
					return
				}
			}
		}
	}
}

// view returns the list as it is now. What it costs does not grow with the list beyond maxWalk links.
func (ll *linkList) view() Links {
	view := Links{length: ll.length, bytes: ll.bytes}
	switch {
	case ll.pieces != nil:
		view.many = ll.pieces.view()
	case ll.length > 0:
		view.few = make([]LinkDescription, 0, ll.length)
		for l := ll.first; l != nil; l = l.next {
			view.few = append(view.few, l.described())
		}
	}
	return view
}

// described returns the link as a description shows it.
func (l *link) described() LinkDescription {
	d := LinkDescription{Order: l.order, Session: l.session.id, TimeoutMillis: l.timeoutMillis,
		Count: l.count, Data: l.data}
	if l.owner {
		d.TimeoutMillis = 0
	}
	return d
}

// pieces is the description of a long list, kept up to date link by link, because the whole must not be walked over in
// one turn. Views share the pieces with it: a shared piece is never written, but replaced by a copy first.
type pieces struct {
	list   []piece // no two neighbours have room in half a piece together
	shared bool    // a view has the list
	age    uint64  // of the pieces that no view has
}

// piece is some links that follow each other: one or more, pieceLinks at most.
type piece struct {
	links []LinkDescription
	age   uint64
}

func piecesOf(ll *linkList) *pieces {
	p := new(pieces)
	for l := ll.first; l != nil; l = l.next {
		p.append(l)
	}
	return p
}

func (p *pieces) view() []piece {
	p.shared = true
	return p.list
}

// unshare must be called before the list of pieces is written.
func (p *pieces) unshare() {
	if p.shared {
		p.list, p.shared = slices.Clone(p.list), false
		p.age++
	}
}

// own returns a piece that may be written.
func (p *pieces) own(at int) *piece {
	p.unshare()
	x := &p.list[at]
	if x.age != p.age {
		x.links, x.age = append(make([]LinkDescription, 0, pieceLinks), x.links...), p.age
	}
	return x
}

func (p *pieces) append(l *link) {
	last := len(p.list) - 1
	if last < 0 || len(p.list[last].links) == pieceLinks {
		p.unshare()
		p.list = append(p.list, piece{make([]LinkDescription, 0, pieceLinks), p.age})
		last++
	}
	x := p.own(last)
	x.links = append(x.links, l.described())
}

func (p *pieces) update(l *link) {
	at, in := p.find(l.order)
	p.own(at).links[in] = l.described()
}

func (p *pieces) remove(l *link) {
	at, in := p.find(l.order)
	x := p.own(at)
	if in == 0 { // the first of a queue leaves it
		x.links[0] = LinkDescription{}
		x.links = x.links[1:]
	} else {
		x.links = slices.Delete(x.links, in, in+1)
	}
	if len(x.links) == 0 {
		p.list = slices.Delete(p.list, at, at+1)
	}
	p.join(at)
}

// join joins a piece with a neighbour if both have become small.
func (p *pieces) join(at int) {
	for _, first := range [...]int{at, at - 1} {
		second := first + 1
		if first >= 0 && second < len(p.list) &&
			len(p.list[first].links)+len(p.list[second].links) <= pieceLinks/2 {
			x := p.own(first)
			x.links = append(x.links, p.list[second].links...)
			p.list = slices.Delete(p.list, second, second+1)
			return
		}
	}
}

// find returns the piece that has a link, and the link's place in it. The link must be there.
func (p *pieces) find(order OrderID) (at, in int) {
	at, first := slices.BinarySearchFunc(p.list, order,
		func(x piece, order OrderID) int { return cmp.Compare(x.links[0].Order, order) })
	if !first {
		at--
	}
	in, _ = slices.BinarySearchFunc(p.list[at].links, order,
		func(d LinkDescription, order OrderID) int { return cmp.Compare(d.Order, order) })
	return at, in
}
