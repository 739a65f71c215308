package coordination

// waitingDescribe is a describe that must not overtake earlier writes to its node.
type waitingDescribe struct {
	attachment *attachment
	sequence   Sequence
	request    *Request
	after      uint64 // answered once so many of the node's commands are applied: those proposed before it
	strict     bool   // later requests of its stream wait for it
}

// strictReads holds describes that wait for a proof of leadership (§4.5). One proof is asked for at a time;
// those that come meanwhile wait for the next, because a proof covers only what was asked before it began.
type strictReads struct {
	barrier uint64 // the one under way, or 0
	covered []waitingDescribe
	next    []waitingDescribe
}

func (l *Leader) describe(a *attachment, sequence Sequence, r *Request) {
	d := waitingDescribe{attachment: a, sequence: sequence, request: r, after: a.node.proposed,
		strict: a.node.node.config.StrictReads()}
	if d.strict {
		a.reads++
		l.hurry()
		l.strict.next = append(l.strict.next, d)
		l.askBarrier()
		return
	}
	l.describeInTurn(&d)
}

func (l *Leader) askBarrier() {
	if l.strict.barrier != 0 || len(l.strict.next) == 0 {
		return
	}
	l.counter++
	l.strict.barrier = l.counter
	l.strict.covered, l.strict.next = l.strict.next, nil
	l.out.Barrier = l.strict.barrier
}

// BarrierPassed reports that this server still led after the barrier had been put out, and has applied everything that
// was committed then.
func (l *Leader) BarrierPassed(barrier uint64) {
	if barrier != l.strict.barrier {
		return
	}
	for i := range l.strict.covered {
		l.describeInTurn(&l.strict.covered[i])
	}
	l.strict.barrier, l.strict.covered = 0, nil
	l.askBarrier()
}

func (l *Leader) describeInTurn(d *waitingDescribe) {
	n := d.attachment.node
	if d.after <= n.applied {
		l.answerInTurn(n, d)
		return
	}
	l.hurry()
	n.describes = append(n.describes, *d)
}

// answerDescribes answers those whose turn has come.
func (l *Leader) answerDescribes(n *ledNode) {
	done := 0
	for done < len(n.describes) && n.describes[done].after <= n.applied {
		d := n.describes[done]
		l.answerInTurn(n, &d)
		n.describes[done] = waitingDescribe{}
		done++
	}
	if done == len(n.describes) {
		n.describes = n.describes[:0]
	} else {
		n.describes = n.describes[done:]
	}
}

// answerInTurn answers a describe, and takes the requests that had to wait for it. A stream that has no session
// any more has had its last message.
func (l *Leader) answerInTurn(n *ledNode, d *waitingDescribe) {
	a := d.attachment
	if a.session.attachment != a {
		return
	}
	l.answerDescribe(n, d)
	if d.strict {
		a.reads--
		l.takeLater(a)
	}
}

// answerDescribe is §3.8. The watch is installed at the same point at which the state is read.
func (l *Leader) answerDescribe(n *ledNode, d *waitingDescribe) {
	a, r := d.attachment, d.request
	sem := n.node.semaphores[r.Name]
	if sem == nil {
		l.send(a, Message{Kind: MessageDescribed, Sequence: d.sequence, Request: RequestDescribe,
			Refusal: SemaphoreNotFound})
		return
	}
	if describedBytes(sem, r.IncludeOwners, r.IncludeWaiters) > l.machine.configured.described() {
		l.send(a, Message{Kind: MessageDescribed, Sequence: d.sequence, Request: RequestDescribe,
			Refusal: DescribedTooLarge})
		return
	}
	m := Message{Kind: MessageDescribed, Sequence: d.sequence, Request: RequestDescribe,
		Description: describe(sem, r.IncludeOwners, r.IncludeWaiters)}
	if r.WatchData || r.WatchOwners {
		l.watch(a.session, sem.id, d.sequence, r)
		m.WatchAdded, m.Mark = true, WatchMark{sem.id, l.machine.at()}
	}
	l.send(a, m)
}

// describedBytes bounds the size of an encoded description. It costs the same for any number of links.
func describedBytes(sem *semaphore, owners, waiters bool) int {
	bytes := describedFixedBytes + int(sem.bytes())
	if owners {
		bytes += describedLinksBytes(sem.owners.length, sem.owners.bytes)
	}
	if waiters {
		bytes += describedLinksBytes(sem.waiters.length, sem.waiters.bytes)
	}
	return bytes
}

// describedFixedBytes is numbers and framing: of the semaphore, or of one owner or waiter.
const describedFixedBytes = 64

// describedLinksBytes bounds the size of encoded owners or waiters, by the bytes of their data together.
func describedLinksBytes(length int, data uint64) int { return describedFixedBytes*length + int(data) }
