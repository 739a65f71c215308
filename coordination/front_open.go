package coordination

import (
	"cmp"
	"slices"
)

// openRequest is a request whose last message has not come yet: an acquire until its result, a describe for
// as long as its watch lives.
type openRequest struct {
	OpenRequest
	reqID    uint64   // the client's own number for it, which it wants to read in the reply
	pending  int      // number of the reply that said Pending; 0 while none has
	answered bool     // a message about it has come
	room     uint32   // ClientMessage.RoomMicros
	received Instant  // ClientMessage.Received
	early    *Message // a Changed that has come before its Described, for after it
}

// openRequests are a stream's open requests, ascending by number. A closed one leaves a gap, and gaps are
// removed together once they are the larger part: whatever the order of the answers, closing a request moves
// two others at most, on average.
type openRequests struct {
	list  []openRequest // those without a Request are gaps
	gaps  int
	first int // no place before it is open
}

// add opens a request, whose number is the largest so far.
func (o *openRequests) add(r openRequest) { o.list = append(o.list, r) }

// find returns the place of an open request, -1 if no open request has this number.
func (o *openRequests) find(sequence Sequence) int {
	at, found := slices.BinarySearchFunc(o.list, sequence, func(r openRequest, sequence Sequence) int {
		return cmp.Compare(r.Sequence, sequence)
	})
	if !found || o.list[at].Request == nil {
		return -1
	}
	return at
}

// close closes the request at a place, and lets go of what the request held.
func (o *openRequests) close(at int) {
	o.list[at] = openRequest{OpenRequest: OpenRequest{Sequence: o.list[at].Sequence}}
	if o.gaps++; o.gaps > len(o.list)/2 {
		o.list = slices.DeleteFunc(o.list, func(r openRequest) bool { return r.Request == nil })
		o.gaps, o.first = 0, 0
	}
}

// oldest returns the number of the oldest open request. At least one must be open.
func (o *openRequests) oldest() Sequence {
	for o.list[o.first].Request == nil {
		o.first++
	}
	return o.list[o.first].Sequence
}

// appendTo appends what a leader has to know of the open requests.
func (o *openRequests) appendTo(roster []OpenRequest) []OpenRequest {
	roster = slices.Grow(roster, len(o.list)-o.gaps)
	for i := range o.list {
		if o.list[i].Request != nil {
			roster = append(roster, o.list[i].OpenRequest)
		}
	}
	return roster
}
