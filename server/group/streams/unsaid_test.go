package streams

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// audience is streams that note what is said to them. They go by their places.
type audience []*hearer

type hearer struct{ heard []coordination.Sequence }

func (h *hearer) deliver(_ Link, m *coordination.Message) {
	h.heard = append(h.heard, m.Sequence)
}

func (a audience) Sink(m *coordination.Message) (to Sink, known bool) { return a[m.Stream], true }

func newAudience(n int) audience {
	a := make(audience, n)
	for i := range a {
		a[i] = new(hearer)
	}
	return a
}

// told counts the messages that the streams have received together.
func (a audience) told() (n int) {
	for _, h := range a {
		n += len(h.heard)
	}
	return n
}

// TestMuchIsSaidInSlices says more to one stream than a turn does, and something to others after it.
func TestMuchIsSaidInSlices(t *testing.T) {
	const all = 3 * maxSaid
	var u Unsaid
	a := newAudience(3)
	var want []coordination.Sequence
	var messages []coordination.Message
	for i := range coordination.Sequence(all) {
		want = append(want, i)
		messages = append(messages, coordination.Message{Sequence: i})
	}
	u.Say(nil, append(messages, coordination.Message{Stream: 1}), a)
	if len(a[0].heard) != maxSaidTo || len(a[1].heard) != 1 {
		t.Errorf("the first turn says %d and %d", len(a[0].heard), len(a[1].heard))
	}
	want = append(want, all)
	u.Say(nil, []coordination.Message{{Sequence: all}, {Stream: 2}}, a)
	if len(a[2].heard) != 1 {
		t.Error("what is said to another stream waits")
	}
	u.finish(t, a)
	if !slices.Equal(a[0].heard, want) {
		t.Error("a stream hears out of order what is said to it")
	}
	if u.behind != nil {
		t.Errorf("%d streams are still behind", len(u.behind))
	}
}

// TestManyAreToldInSlices says something to more streams than a turn does.
func TestManyAreToldInSlices(t *testing.T) {
	var u Unsaid
	a := newAudience(3 * maxSaid)
	messages := make([]coordination.Message, len(a))
	for i := range messages {
		messages[i].Stream = coordination.StreamID(i)
	}
	if u.Say(nil, messages, a); a.told() != maxSaid {
		t.Errorf("the first turn says %d", a.told())
	}
	if u.finish(t, a); a.told() != len(a) {
		t.Errorf("%d of %d are told", a.told(), len(a))
	}
}

// finish says what waits, some in each turn.
func (u *Unsaid) finish(t *testing.T, a audience) {
	t.Helper()
	for len(u.waiting) > 0 {
		before := a.told()
		u.Say(nil, nil, a)
		if said := a.told() - before; said == 0 || said > maxSaid {
			t.Fatalf("a turn says %d", said)
		}
	}
}
