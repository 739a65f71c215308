package coordination

import (
	"cmp"
	"slices"
)

// shelfBlock bounds the elements of a block of a shelf: a removal moves at most as many.
const shelfBlock = 256

// numbered is an element of a shelf. Its number does not change.
type numbered interface{ number() uint64 }

// shelf keeps elements in ascending order of their numbers, so that a listing goes on behind any number,
// whether its element is still there or not. What is added has the largest number of all. Adding and removing
// the last element over and over allocates nothing.
type shelf[E numbered] struct {
	// blocks are in order, and so are the elements of each. Only the last one may be empty.
	blocks [][]E
}

func (s *shelf[E]) append(e E) {
	last := len(s.blocks) - 1
	if last < 0 || len(s.blocks[last]) == shelfBlock {
		s.blocks = append(s.blocks, nil)
		last++
	}
	s.blocks[last] = append(s.blocks[last], e)
}

// seek returns the place of the first element whose number is the given one or larger.
func (s *shelf[E]) seek(number uint64) (block, in int) {
	block, found := slices.BinarySearchFunc(s.blocks, number, func(b []E, number uint64) int {
		if len(b) == 0 {
			return 1
		}
		return cmp.Compare(b[0].number(), number)
	})
	if found || block == 0 {
		return block, 0
	}
	block--
	in, _ = slices.BinarySearchFunc(s.blocks[block], number,
		func(e E, number uint64) int { return cmp.Compare(e.number(), number) })
	if in == len(s.blocks[block]) {
		return block + 1, 0
	}
	return block, in
}

// at returns the element at a place, or false.
func (s *shelf[E]) at(block, in int) (e E, there bool) {
	if block >= len(s.blocks) || in >= len(s.blocks[block]) {
		return e, false
	}
	return s.blocks[block][in], true
}

// find returns the element of that number.
func (s *shelf[E]) find(number uint64) (e E, there bool) {
	if e, there = s.at(s.seek(number)); there && e.number() != number {
		var none E
		return none, false
	}
	return e, there
}

// after returns the first element whose number is larger than the given one.
func (s *shelf[E]) after(number uint64) (e E, there bool) { return s.at(s.seek(number + 1)) }

// remove takes out an element, which must be there.
func (s *shelf[E]) remove(e E) {
	block, in := s.seek(e.number())
	s.blocks[block] = slices.Delete(s.blocks[block], in, in+1)
	if len(s.blocks[block]) == 0 && block < len(s.blocks)-1 {
		s.blocks = slices.Delete(s.blocks, block, block+1)
		return
	}
	s.join(block)
}

// join joins a block with a neighbour if both have become small, so that what is left of many elements is in
// few blocks.
func (s *shelf[E]) join(block int) {
	for _, first := range [...]int{block, block - 1} {
		second := first + 1
		if first >= 0 && second < len(s.blocks) &&
			len(s.blocks[first])+len(s.blocks[second]) <= shelfBlock/2 {
			s.blocks[first] = append(s.blocks[first], s.blocks[second]...)
			s.blocks = slices.Delete(s.blocks, second, second+1)
			return
		}
	}
}

func (s *session) number() uint64   { return uint64(s.id) }
func (s *semaphore) number() uint64 { return uint64(s.id) }
