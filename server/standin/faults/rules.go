package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

// Filter picks clients. Its zero value picks all of them; what is given must all hold.
type Filter struct {
	// Node is the path of a coordination node, as Set.Path takes it.
	Node string `json:"node,omitempty"`
	// Session is a session of that node.
	Session uint64 `json:"session,omitempty"`
	// Client is an address, with or without its port, or the beginning of what an SDK says it is, such as
	// ydb-python-sdk.
	Client string `json:"client,omitempty"`
	// Server is a server of several, from 1.
	Server int `json:"server,omitempty"`
}

// picks reports whether a request is of a client that the filter picks. Node has passed Set.Path.
func (f *Filter) picks(r *Request) bool {
	return (f.Node == "" || f.Node == r.Node) &&
		(f.Session == 0 || f.Session == r.Session) &&
		(f.Server == 0 || f.Server == r.Server) &&
		(f.Client == "" || isClient(f.Client, r.Client, r.SDK))
}

func isClient(wanted, address, sdk string) bool {
	host, _, err := net.SplitHostPort(address)
	return wanted == address || err == nil && wanted == host || sdk != "" && strings.HasPrefix(sdk, wanted)
}

// String lists what the filter wants, as orders have it.
func (f Filter) String() string {
	var wants []string
	for _, want := range []struct {
		given bool
		text  string
	}{
		{f.Node != "", "node=" + f.Node}, {f.Session != 0, fmt.Sprint("session=", f.Session)},
		{f.Client != "", "client=" + f.Client}, {f.Server != 0, fmt.Sprint("server=", f.Server)},
	} {
		if want.given {
			wants = append(wants, want.text)
		}
	}
	return strings.Join(wants, " ")
}

// Action is the treatment of a request. Its zero value lets it through.
type Action struct {
	what    action
	refusal Refusal
	delay   time.Duration
	how     Drop
}

type action uint8

const (
	actPass action = iota
	actRefuse
	actDelay
	actLose
	actRepeat
	actDrop
)

// LoseAnswer is the action of AnswerLost, for OnRequest.
func LoseAnswer() Action { return Action{what: actLose} }

// Delay is the action of DelayNext, for OnRequest.
func Delay(d time.Duration) Action { return Action{what: actDelay, delay: d} }

// DropStream is the action of DropStreams, for OnRequest: the request is not executed.
func DropStream(how Drop) Action { return Action{what: actDrop, how: how} }

// Refuse is the action of FailNext, for OnRequest. A status that requests of the kind never fail with is an error.
func Refuse(kind Kind, status Status, text string) (Action, error) {
	r, err := kind.refusal(status, text)
	return Action{what: actRefuse, refusal: r}, err
}

// rule is an action for some requests.
type rule struct {
	order   string // by which it was ordered
	kind    Kind
	filter  Filter
	left    int // how many more; below 0: all
	chance  float64
	random  *rand.Rand // nil: all of them
	action  Action
	met     bool // a request that it is about has come
	hits    int  // requests that have met it, the last one at last
	last    time.Time
	mayMiss bool
}

// meets reports whether the rule is about a request, and counts it.
func (r *rule) meets(q *Request) bool {
	if r.left == 0 || r.kind != q.Kind || !r.filter.picks(q) {
		return false
	}
	r.met = true
	if r.random != nil && r.random.Float64() >= r.chance {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	r.hits, r.last = r.hits+1, q.At
	return true
}

// Rule is a fault that waits for requests, or has waited for them.
type Rule struct {
	Order string `json:"order"`
	// Text has its arguments, as an order has them.
	Text string `json:"text"`
	// Left counts the requests for which it still waits; -1: all of them until Reset.
	Left int `json:"left"`
	// Hits counts the requests that it has met, the last one at Last.
	Hits int       `json:"hits"`
	Last time.Time `json:"last,omitzero"`
	// Over reports that Reset has taken it back, or that it has made room for others.
	Over bool `json:"over,omitempty"`
}

// shown describes a rule.
func (r *rule) shown() Rule {
	text := fmt.Sprintf("kind=%s", r.kind)
	if r.left >= 0 {
		text += fmt.Sprintf(" n=%d", r.left+r.hits)
	}
	if r.random != nil {
		text += fmt.Sprintf(" p=%v", r.chance)
	}
	switch r.action.what {
	case actRefuse:
		text += fmt.Sprintf(" status=%s", r.action.refusal.Status)
	case actDelay:
		text += fmt.Sprintf(" d=%v", r.action.delay)
	}
	if r.filter != (Filter{}) {
		text += " " + r.filter.String()
	}
	return Rule{Order: r.order, Text: text, Left: r.left, Hits: r.hits, Last: r.last}
}
