package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// queueEvery is the time between two looks at the queue at a terminal, and before the only one elsewhere.
	queueEvery = time.Second
	// ownersMost bounds how long a message waits for a server that is to name the owner.
	ownersMost = time.Second
)

// queueShown shows the queue while a session waits: at a terminal again and again, elsewhere once.
type queueShown struct {
	caller           *caller
	env              *cmdline.Env
	verb, node, name string // verb is for messages
	session          *protocol.Session

	waits chan struct{}
	over  chan struct{}
	done  chan struct{}
}

// begin is called by the session, and must not wait.
func (q *queueShown) begin() {
	select {
	case q.waits <- struct{}{}:
	default:
	}
}

func (q *queueShown) end() {
	close(q.over)
	<-q.done
}

// start follows the wait that begins next.
func (q *queueShown) start(ctx context.Context) {
	q.waits, q.over, q.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(q.done)
		select {
		case <-q.waits:
		case <-q.over:
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // end does not wait for an answer
			select {
			case <-q.over:
				cancel()
			case <-ctx.Done():
			}
		}()
		if file := terminalOf(q.env.Stderr); file != nil {
			q.redraw(ctx, file)
			return
		}
		select {
		case <-time.After(queueEvery):
		case <-ctx.Done():
		}
		if text := q.text(ctx); text != "" {
			_ = cmdline.PrintLine(q.env.Stderr, "coordd: %s: %s", q.verb, text)
		}
	}()
}

func (q *queueShown) redraw(ctx context.Context, file *os.File) {
	defer fmt.Fprint(file, "\r\x1b[K")
	for ctx.Err() == nil {
		if text := q.text(ctx); text != "" {
			columns, _ := tty.Size(file)
			fmt.Fprint(file, "\r\x1b[K"+tty.Cut(cmdline.Printable(text), columns-1))
		}
		select {
		case <-time.After(queueEvery):
		case <-ctx.Done():
		}
	}
}

// text describes the place of the session in the queue, "" if it is not known.
func (q *queueShown) text(ctx context.Context) string {
	d, _, err := q.session.Describe(ctx, q.name, protocol.Wanted{Owners: true, Waiters: true})
	if err != nil {
		return ""
	}
	before := 0
	for _, waiter := range d.GetWaiters() {
		if waiter.GetSessionId() == q.session.ID() {
			break
		}
		before++
	}
	text := fmt.Sprintf("waiting for %q: %d before you", q.name, before)
	if len(d.GetOwners()) > 0 {
		text += ", held by " + q.caller.ownersText(ctx, q.node, d)
	}
	return text
}

// ownersText names the oldest owner of a semaphore, with its client where a coordd server names it in time.
func (c *caller) ownersText(ctx context.Context, node string, d *protocol.Description) string {
	owners := d.GetOwners()
	if len(owners) == 0 {
		return "others"
	}
	first := owners[0]
	text := fmt.Sprintf("session %d", first.GetSessionId())
	if data := first.GetData(); len(data) > 0 {
		text += fmt.Sprintf(" %.40q", data)
	}
	ctx, cancel := context.WithTimeout(ctx, ownersMost)
	defer cancel()
	page, err := c.page(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS, Path: node,
		Session: first.GetSessionId()})
	if err == nil && len(page.GetSessions()) > 0 {
		told := page.GetSessions()[0]
		text += ", " + told.GetDescription()
		if told.GetClient() != nil {
			text += ", from " + told.GetClient().GetAddress()
		}
		for _, l := range told.GetOwned() {
			if l.GetOrderId() == first.GetOrderId() {
				text += ", since " + dayText(l.GetSinceMillis())
			}
		}
	}
	if len(owners) > 1 {
		text += fmt.Sprintf(", and %d more", len(owners)-1)
	}
	return text
}
