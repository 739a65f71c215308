package faults

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/internal/hooks"
)

// ErrMissed is wrapped by the error of a fault that met nothing: no stream, watch, session or coordination node
// that it names.
var ErrMissed = hooks.ErrMissing

// shownMost bounds how many things an error lists.
const shownMost = 8

// missed is the error of a fault that found nothing of a kind, such as "watch", among the streams that f picks. It
// lists the streams that are open.
func (s *Set) missed(kind string, f Filter) error {
	var open []string
	for _, st := range s.pick(Filter{}) {
		q := st.whose()
		open = append(open, fmt.Sprintf("session %d of %s, client %s", q.Session, q.Node, q.Client))
	}
	if f != (Filter{}) {
		kind += " with " + f.String()
	}
	return fmt.Errorf("a %s %w; open streams: %s", kind, ErrMissed, listed(open))
}

// miss describes a rule that no request has met, and the requests of its kind that came.
func (r *rule) miss(requests []Request) string {
	var came []string
	for i := range requests {
		if q := &requests[i]; q.Kind == r.kind {
			came = append(came, fmt.Sprintf("session %d of %s", q.Session, q.Node))
		}
	}
	what := fmt.Sprintf("%s kind=%s", r.order, r.kind)
	if r.filter != (Filter{}) {
		what += " " + r.filter.String()
	}
	return fmt.Sprintf("%s has met no request; of this kind came: %s", what, listed(came))
}

// listed joins the first few of the different texts, or returns "none".
func listed(texts []string) string {
	var shown []string
	seen := make(map[string]bool)
	for _, text := range texts {
		if seen[text] {
			continue
		}
		if seen[text] = true; len(seen) <= shownMost {
			shown = append(shown, text)
		}
	}
	if len(seen) == 0 {
		return "none"
	}
	if more := len(seen) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, "; ")
}
