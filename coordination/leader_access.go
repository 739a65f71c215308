package coordination

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/scheme"
)

// rights is step 7 of §2.3: what the stream's user may do on its node at present.
func (l *Leader) rights(a *attachment) Rights {
	entry, found := l.machine.tree.Lookup(scheme.SplitLoose(a.path))
	if !found || entry.Node != a.node.id {
		return 0
	}
	access := l.machine.tree.Rights(entry, l.machine.Subject(a.caller))
	var rights Rights
	if access&scheme.SelectRow != 0 {
		rights |= RightRead
	}
	if access&scheme.UpdateRow != 0 {
		rights |= RightWrite
	}
	if access&scheme.EraseRow != 0 {
		rights |= RightErase
	}
	return rights
}

// RecheckAccess ends the streams whose users have lost a right that they had when they were attached. The reference
// leaves them alone (§2.3: rights are evaluated once); rights that are new count from the next attach on, as there. It
// takes time proportional to the number of streams, and is to be called some time after Machine.AccessVersion changed.
func (l *Leader) RecheckAccess(now Instant) {
	for _, id := range slices.Sorted(maps.Keys(l.streams)) {
		a := l.streams[id]
		if a == nil || a.rights&^l.rights(a) == 0 {
			continue
		}
		l.Detach(now, id)
		l.end(a, NoAccess)
	}
}
