package model

import (
	"fmt"
	"strings"
	"time"
)

// op is the operation of a step.
type op string

const (
	opStart     op = "start"      // open a stream and start it
	opFirst     op = "first"      // open a stream and send something else
	opCloseOnly op = "close only" // open a stream and close it
	opSend      op = "send"       // on the slot's current stream, even behind its end
	opPong      op = "pong"
	opEcho      op = "echo" // a ping with the number of the server's last ping
	opClose     op = "close"
	opAdvance   op = "advance"
	opDeadline  op = "deadline" // let time pass until the next expiry of a session or wait
	opMute      op = "mute"     // the slot stops, or begins again, to answer pings
	// requests stay in flight until a release, or a step that is more than a message
	opHold    op = "hold"
	opRelease op = "release"
	opRestart op = "restart"
	opReload  op = "reload" // restart from a checkpoint
	opHand    op = "hand over"
	opDrop    op = "drop"
	opCreate  op = "create node"
	opAlter   op = "alter node"
	opSet     op = "set" // data of a semaphore that has an expected version
)

// sessionRef names the session that a start asks for. Steps name sessions by the slot that had them, so that a sequence
// keeps its sense when steps are left out of it.
type sessionRef string

const (
	sessionNew   sessionRef = "new"
	sessionOf    sessionRef = "of" // the one that slot other has, or had
	sessionBogus sessionRef = "bogus"
)

// keyRef names the protection key that a start carries.
type keyRef string

const (
	keyRight keyRef = "right" // that of the session asked for; of a new one the slot's own
	keyWrong keyRef = "wrong"
	keyEmpty keyRef = "empty"
	keyLong  keyRef = "long"
	keyFull  keyRef = "full" // exactly as long as allowed
)

// pongRef names the number that a pong carries.
type pongRef string

const (
	pongRight    pongRef = "right" // that of the last ping, also if it was answered already
	pongPrevious pongRef = "previous"
	pongZero     pongRef = "zero"
	pongWrong    pongRef = "wrong"
)

// inFlight reports whether the step can be done while requests are in flight.
func (o op) inFlight() bool {
	switch o {
	case opStart, opSend, opPong, opEcho, opClose, opMute, opHold, opRelease,
		opAdvance, opDeadline:
		return true
	}
	return false
}

// step is one action of a sequence. Which fields count depends on op.
type step struct {
	op      op
	slot    int
	other   int
	server  uint64
	request Request // of opStart: without Session, SeqNo and ProtectionKey
	session sessionRef
	seq     int // added to the last seq_no of the session asked for
	key     keyRef
	pong    pongRef
	by      time.Duration
	config  Config
	off     uint64 // of opSet: added to the version that is there, which is 0 if the semaphore is missing
}

func (s step) String() string {
	switch s.op {
	case opStart:
		return fmt.Sprintf(
			"c%d: start on server %d path=%q session=%s %d seq%+d key=%s timeout=%d description=%s", s.slot,
			s.server, s.request.Path, s.session, s.other, s.seq, s.key, s.request.TimeoutMillis,
			brief(s.request.Description))
	case opFirst:
		return fmt.Sprintf("c%d: first message %s", s.slot, s.request)
	case opSend:
		return fmt.Sprintf("c%d: %s", s.slot, s.request)
	case opPong:
		return fmt.Sprintf("c%d: pong %s", s.slot, s.pong)
	case opAdvance:
		return fmt.Sprintf("advance %v", s.by)
	case opDeadline:
		return fmt.Sprintf("advance to the next expiry and %v", s.by)
	case opCreate, opAlter:
		return fmt.Sprintf("%s %+v", s.op, s.config)
	case opSet:
		return fmt.Sprintf("set %s to %s, expecting its version and %d", brief(s.request.Name), brief(s.request.Data),
			s.off)
	case opHold, opRelease, opRestart, opReload, opHand, opDrop:
		return string(s.op)
	}
	return fmt.Sprintf("c%d: %s", s.slot, s.op)
}

func (r Request) String() string {
	switch r.Kind {
	case Ping, Pong:
		return fmt.Sprintf("%s %d", r.Kind, r.Opaque)
	case Start, Stop, Empty, Unsupported:
		return string(r.Kind)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s req=%d", r.Kind, brief(r.Name), r.ReqID)
	switch r.Kind {
	case Create:
		fmt.Fprintf(&b, " limit=%d data=%s", r.Limit, brief(r.Data))
	case Update:
		fmt.Fprintf(&b, " data=%s", brief(r.Data))
	case Delete:
		fmt.Fprintf(&b, " force=%v", r.Force)
	case Acquire:
		fmt.Fprintf(&b, " count=%d timeout=%d ephemeral=%v data=%s", r.Count, r.TimeoutMillis, r.Ephemeral,
			brief(r.Data))
	case Describe:
		fmt.Fprintf(&b, " owners=%v waiters=%v watch data=%v owners=%v", r.IncludeOwners, r.IncludeWaiters,
			r.WatchData, r.WatchOwners)
	}
	return b.String()
}

func (r Reply) String() string {
	switch r.Kind {
	case Started, Stopped:
		return fmt.Sprintf("%s session=%d", r.Kind, r.Session)
	case Failure:
		return fmt.Sprintf("failure %d %q", r.Status, r.Text)
	case PingOut:
		return "ping"
	case PongOut:
		return fmt.Sprintf("pong %d", r.Opaque)
	case Pending:
		return fmt.Sprintf("pending req=%d", r.ReqID)
	case ChangedBy:
		return fmt.Sprintf("changed req=%d data=%v owners=%v", r.ReqID, r.DataChanged, r.OwnersChanged)
	}
	text := fmt.Sprintf("%s result req=%d %d", r.To, r.ReqID, r.Status)
	if r.Text != "" {
		text += fmt.Sprintf(" %q", r.Text)
	}
	if r.To == Acquire || r.To == Release {
		text += fmt.Sprintf(" done=%v", r.Done)
	}
	if d := r.Description; d != nil {
		text += fmt.Sprintf(" watch=%v %s data=%s count=%d limit=%d ephemeral=%v owners%s waiters%s",
			r.WatchAdded, brief(d.Name), brief(d.Data), d.Count, d.Limit, d.Ephemeral, linksText(d.Owners),
			linksText(d.Waiters))
	}
	return text
}

func linksText(links []LinkDescription) string {
	var b strings.Builder
	b.WriteString("[")
	for _, l := range links {
		fmt.Fprintf(&b, " #%d session=%d timeout=%d count=%d data=%s;", l.Order, l.Session, l.TimeoutMillis,
			l.Count, brief(l.Data))
	}
	b.WriteString("]")
	return b.String()
}

// brief keeps a message readable whose strings go to the limits.
func brief(text string) string {
	if len(text) > 20 {
		return fmt.Sprintf("%d bytes", len(text))
	}
	return fmt.Sprintf("%q", text)
}
