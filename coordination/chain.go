package coordination

// neighbours are the elements before and after an element in its chain.
type neighbours[E any] struct{ previous, next E }

// chained is an element that can be in one chain.
type chained[E any] interface {
	comparable
	beside() *neighbours[E]
}

// chain keeps elements in the order in which they were appended.
type chain[E chained[E]] struct{ first, last E }

func (c *chain[E]) append(e E) {
	var none E
	*e.beside() = neighbours[E]{previous: c.last}
	if c.last == none {
		c.first = e
	} else {
		c.last.beside().next = e
	}
	c.last = e
}

func (c *chain[E]) remove(e E) {
	var none E
	at := e.beside()
	if at.previous == none {
		c.first = at.next
	} else {
		at.previous.beside().next = at.next
	}
	if at.next == none {
		c.last = at.previous
	} else {
		at.next.beside().previous = at.previous
	}
	*at = neighbours[E]{}
}
