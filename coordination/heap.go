package coordination

// ordered is an element of a heapOf. It remembers its place, so that it can be removed without a search.
type ordered[T any] interface {
	before(T) bool
	place() *int
}

// heapOf is a binary heap whose first element is the one before all others.
type heapOf[T ordered[T]] []T

func (h *heapOf[T]) push(x T) {
	*h = append(*h, x)
	*x.place() = len(*h) - 1
	h.up(len(*h) - 1)
}

// remove takes x out. x must be in the heap.
func (h *heapOf[T]) remove(x T) {
	at, last := *x.place(), len(*h)-1
	h.swap(at, last)
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	if at < last {
		h.fix(at)
	}
}

// fix restores the order after the element at a place has changed.
func (h *heapOf[T]) fix(at int) {
	h.up(at)
	h.down(at)
}

func (h *heapOf[T]) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !(*h)[at].before((*h)[parent]) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

func (h *heapOf[T]) down(at int) {
	for {
		first := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(*h); child++ {
			if (*h)[child].before((*h)[first]) {
				first = child
			}
		}
		if first == at {
			return
		}
		h.swap(at, first)
		at = first
	}
}

func (h *heapOf[T]) swap(i, j int) {
	(*h)[i], (*h)[j] = (*h)[j], (*h)[i]
	*(*h)[i].place(), *(*h)[j].place() = i, j
}
