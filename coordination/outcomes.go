package coordination

import (
	"cmp"
	"slices"
)

// memory has the outcomes of a session's recent requests, so that a request that is repeated to a new leader gets its
// one true answer. It is not stored: every server remembers what it has applied itself.
type memory struct {
	// complete: every request since the session's last logged attach was applied by this server in this life,
	// so what is not remembered and not forgotten was never executed.
	complete bool
	epoch    Epoch // of the stream whose requests these are: the highest that asked for anything
	// from is the first request under epoch that this server applied. A stream's requests come in order, so
	// what became of it and of all behind it is known although the memory is not complete.
	from      Sequence
	highest   Sequence            // of the requests executed under epoch
	forgotten Sequence            // the highest whose outcome was dropped without having been acknowledged
	outcomes  []rememberedRequest // in the order in which they came about, which is not that of the requests

	acknowledged, answered Sequence // the last seen, for which outcomes has been looked through
}

type rememberedRequest struct {
	sequence Sequence
	request  RequestKind
	refusal  *Refusal
	done     bool
}

// maxOutcomes bounds what is remembered for one session. A stream has no more requests unanswered than that,
// unless its client reads nothing.
const maxOutcomes = 1024

// keptOutcomes is a session's room for outcomes when most of those that it had are acknowledged.
const keptOutcomes = 8

// see notes that a request is being executed, and drops what its stream has acknowledged. The epoch never
// falls: a request of an earlier stream is executed and not remembered. It looks through the outcomes, of which
// there are maxOutcomes at most, only if an acknowledgement is new: a stream whose client reads nothing pays
// nothing for those that it lets pile up.
func (m *memory) see(o *Origin) {
	switch m.epoch.Compare(o.Address.Epoch) {
	case 1:
		return
	case -1:
		*m = memory{complete: m.complete, epoch: o.Address.Epoch, from: o.Address.Sequence,
			outcomes: m.outcomes[:0]}
	}
	m.highest = max(m.highest, o.Address.Sequence)
	if o.Answered != m.answered {
		m.answered = o.Answered
		at := slices.IndexFunc(m.outcomes, func(x rememberedRequest) bool { return x.sequence == o.Answered })
		m.outcomes = slices.Delete(m.outcomes, 0, at+1)
	}
	if o.Acknowledged != m.acknowledged {
		m.acknowledged = o.Acknowledged
		m.outcomes = slices.DeleteFunc(m.outcomes,
			func(x rememberedRequest) bool { return x.sequence < o.Acknowledged })
	}
	if cap(m.outcomes) > 2*keptOutcomes && len(m.outcomes) < keptOutcomes {
		m.outcomes = append(make([]rememberedRequest, 0, keptOutcomes), m.outcomes...)
	}
}

// remember keeps the last answer to a request of the present stream.
func (m *memory) remember(e *Effect) {
	if m.epoch != e.Address.Epoch {
		return
	}
	if len(m.outcomes) == maxOutcomes {
		m.forgotten = max(m.forgotten, m.outcomes[0].sequence)
		m.outcomes[0] = rememberedRequest{}
		m.outcomes = m.outcomes[1:] // to move the others would cost as much with each outcome
	}
	m.outcomes = append(m.outcomes, rememberedRequest{e.Address.Sequence, e.Request, e.Refusal, e.Done})
}

// covers reports whether everything is known that was executed from this request on. Of a stream earlier than
// the remembered one nothing is known; of a later one nothing was executed, if the memory is complete.
func (m *memory) covers(a Address) bool {
	switch m.epoch.Compare(a.Epoch) {
	case 1:
		return false
	case -1:
		return m.complete
	}
	return m.complete || a.Sequence >= m.from
}

// answersTo is the outcomes of those of the open requests that have one, in the order in which they came
// about.
func (m *memory) answersTo(r *Roster) []rememberedRequest {
	if m.epoch != r.Epoch {
		return nil
	}
	var answers []rememberedRequest
	for _, x := range m.outcomes {
		at, found := slices.BinarySearchFunc(r.Open, x.sequence,
			func(open OpenRequest, s Sequence) int { return cmp.Compare(open.Sequence, s) })
		if found && !r.Open[at].Watching && r.Open[at].Request.Kind.executed() {
			answers = append(answers, x)
		}
	}
	return answers
}

// knowledge is the known fate of a request.
type knowledge uint8

const (
	neverExecuted knowledge = iota
	answered
	stillWaiting
	unknown
)

// recollection is the known fate of some requests of one stream, by their numbers.
type recollection struct {
	of    *session
	epoch Epoch
	known map[Sequence]knowledge
}

// recollect gathers what the session knows of the requests of a stream: the remembered outcomes and the waits.
// It looks at each of them once, however many requests are asked about afterwards.
func (s *session) recollect(epoch Epoch) recollection {
	known := make(map[Sequence]knowledge)
	for l := s.links.first; l != nil; l = l.nextOfSession {
		if !l.owner && l.address.Epoch == epoch {
			known[l.address.Sequence] = stillWaiting
		}
	}
	if s.memory.epoch == epoch {
		for _, x := range s.memory.outcomes {
			known[x.sequence] = answered
		}
	}
	return recollection{s, epoch, known}
}

// recall finds what became of a request that the stream repeats.
func (r *recollection) recall(sequence Sequence) knowledge {
	if became, is := r.known[sequence]; is {
		return became
	}
	m := &r.of.memory
	switch {
	case !m.covers(Address{r.epoch, sequence}), m.epoch == r.epoch && sequence <= m.forgotten:
		return unknown
	case m.epoch == r.epoch && sequence <= m.highest:
		return unknown // it was answered, and acknowledged: nobody repeats that
	}
	return neverExecuted
}
