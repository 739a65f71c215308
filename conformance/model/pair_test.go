package model

import (
	"fmt"

	"github.com/coordd/coordd/conformance/rings"
	"github.com/coordd/coordd/coordination"
)

// pair is one client's stream on both sides.
type pair struct {
	number     int
	slot       *slot
	start      Request
	model      *Stream
	rings      *rings.Stream
	modelPings []uint64
	ringsPings []uint64
	toPong     bool
	ending     Ending // as compared last
	leftOpen   bool   // refused at once, and then the leader was lost: another server made it end by that
}

// inModelNumbers puts the model's number in the place of the rings' where a pong answers the echo of a ping.
func (p *pair) inModelNumbers(r Reply) Reply {
	for i, number := range p.ringsPings {
		if r.Kind == PongOut && r.Opaque == number {
			r.Opaque = p.modelPings[i]
		}
	}
	return r
}

// send gives both sides a message of the client.
func (r *run) send(p *pair, request Request) {
	if p.model.Attaching() {
		return // the server does not read
	}
	if request.Kind == Describe && r.attaching {
		// Whether it has to wait depends on whether the attach is written, which is the server's affair.
		return
	}
	if request.Kind == Start && p.start.Kind != Start {
		p.start = request
	}
	p.rings.Send(clientMessage(request))
	r.model.Send(p.model, request)
}

// close closes the client's side of the stream.
func (r *run) close(p *pair) {
	if p.model.Attaching() && p.rings.Ending() != coordination.EndingNone {
		return // refused already, see comparePair
	}
	p.rings.Close()
	r.model.Close(p.model)
}

// pong sends a number that both sides understand in the same way, although each has chosen its own for the
// ping.
func (r *run) pong(p *pair, which pongRef) {
	if p.model.Attaching() {
		return
	}
	wrong := uint64(1) << 60
	fromModel, fromRings := wrong, wrong
	back := 0
	switch which {
	case pongRight:
		back = 1
	case pongPrevious:
		back = 2
	case pongZero:
		fromModel, fromRings = 0, 0
	}
	if count := len(p.modelPings); back > 0 && back <= count {
		fromModel, fromRings = p.modelPings[count-back], p.ringsPings[count-back]
	}
	p.rings.Send(clientMessage(Request{Kind: Pong, Opaque: fromRings}))
	r.model.Send(p.model, Request{Kind: Pong, Opaque: fromModel})
}

// echo answers a ping with a ping, as the Python SDK does.
func (r *run) echo(p *pair) {
	last := len(p.modelPings) - 1
	if last < 0 {
		return
	}
	p.rings.Send(clientMessage(Request{Kind: Ping, Opaque: p.ringsPings[last]}))
	r.model.Send(p.model, Request{Kind: Ping, Opaque: p.modelPings[last]})
}

// comparePair compares what one client has read since the last time, and remembers what it needs for later
// messages.
func (r *run) comparePair(p *pair) {
	if p.model.Attaching() || p.leftOpen {
		return // the server may refuse at once or in turn; nothing else is on this stream
	}
	want := p.model.Replies()
	ringsReplies := p.rings.Replies()
	wantEnding, gotEnding := p.model.Ending(), seenEnding(p.rings.Ending())
	if len(want) == 0 && len(ringsReplies) == 0 && wantEnding == p.ending && gotEnding == p.ending {
		return
	}
	p.ending = wantEnding
	var got []Reply
	for _, reply := range ringsReplies {
		if reply.Kind != coordination.ReplyNone {
			got = append(got, p.inModelNumbers(seen(reply)))
		}
	}
	same := wantEnding == gotEnding && sameReplies(want, got)
	r.traceReplies(p, same, want, got, wantEnding, gotEnding)
	if !same {
		r.differ(fmt.Sprintf("stream %d differs", p.number))
		return
	}
	for i := range want {
		switch want[i].Kind {
		case Failure:
			if want[i].Status == SessionExpired {
				p.slot.session = 0
			}
		case Started:
			p.slot.session, p.slot.seqNo, p.slot.key = want[i].Session, p.start.SeqNo, p.start.ProtectionKey
		case PingOut:
			if n := len(p.ringsPings); n > 0 && p.ringsPings[n-1] == got[i].Opaque {
				r.differ(fmt.Sprintf("stream %d is pinged with the same number twice", p.number))
			}
			p.modelPings = append(p.modelPings, want[i].Opaque)
			p.ringsPings = append(p.ringsPings, got[i].Opaque)
			p.toPong = true
		}
	}
}

func (r *run) traceReplies(p *pair, same bool, want, got []Reply, wantEnding, gotEnding Ending) {
	if r.trace == nil {
		return
	}
	lines := func(sign string, replies []Reply, ending Ending) {
		for _, reply := range replies {
			r.note("%s  stream %d <- %s\n", sign, p.number, reply)
		}
		if ending != Open {
			r.note("%s  stream %d ended: %s\n", sign, p.number, ending)
		}
		if len(replies) == 0 && ending == Open {
			r.note("%s  stream %d <- nothing\n", sign, p.number)
		}
	}
	if same {
		lines("      both", want, wantEnding)
		return
	}
	lines("-    model", want, wantEnding)
	lines("+    coordd", got, gotEnding)
}
