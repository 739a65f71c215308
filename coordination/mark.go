package coordination

// Marked reports whether there is a checkpoint to be taken behind the entry.
func (e *Entry) Marked() bool {
	if len(e.Commands) != 1 {
		return false
	}
	_, is := e.Commands[0].(*Mark)
	return is
}

// ages reports whether the entry only moves the log clock on. Servers that wait for hours need not compare their states
// for that.
func (e *Entry) ages() bool {
	if len(e.Commands) != 1 {
		return false
	}
	_, is := e.Commands[0].(*Age)
	return is
}

// MarkPolicy says when the leader marks the log. It does not if nothing has changed since the last mark; the
// zero policy is never.
type MarkPolicy struct {
	// Commands is the number of commands after a mark that make the next one due; 0: any number.
	Commands int
	// PeriodMillis is the time from the first command after a mark to the next mark; 0: no limit.
	PeriodMillis uint64
}

// marks tracks the marks in the log at a server, so that it knows as the leader when the next one is due. It is no part
// of the state: servers that were started at different times count differently.
type marks struct {
	policy  MarkPolicy
	changed int     // commands that were executed since the last mark
	since   Instant // when the first of them was
	asked   bool    // this reign has put out a mark that is not executed yet
}

// executed takes note of an entry.
func (k *marks) executed(now Instant, e *Entry) {
	switch {
	case e.Marked():
		k.changed, k.asked = 0, false
	case len(e.Commands) > 0 && !e.ages():
		if k.changed == 0 {
			k.since = now
		}
		k.changed += len(e.Commands)
	}
}

// due is the time of the next mark.
func (k *marks) due() Instant {
	switch {
	case k.changed == 0 || k.asked || k.policy == (MarkPolicy{}):
		return Never
	case k.policy.Commands > 0 && k.changed >= k.policy.Commands:
		return k.since
	}
	return k.since.After(k.policy.PeriodMillis)
}

// SetMarkPolicy says when MarkDue is.
func (r *Replica[S, W]) SetMarkPolicy(p MarkPolicy) { r.marks.policy = p }

// MarkDue is the time at which this server is to Mark the log; Never if it does not lead, or nothing has changed.
func (r *Replica[S, W]) MarkDue() Instant {
	if r.leader == nil {
		return Never
	}
	return r.marks.due()
}

// Mark puts a Mark into the log, whether it is due or not, if this server leads, something has changed since
// the last one, and no mark is on its way. The caller makes sure that every server of the cluster can read it.
func (r *Replica[S, W]) Mark() {
	if r.leader == nil || r.marks.asked || r.marks.changed == 0 {
		return
	}
	r.marks.asked = true
	r.leader.put(&Mark{})
}
