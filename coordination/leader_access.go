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

// RecheckAccess ends the streams whose users have lost a right that they had when they were attached. The
// reference leaves them alone (§2.3: rights are evaluated once); rights that are new count from the next
// attach on, as there. It is to be called some time after Machine.AccessVersion changed. Permissions may be
// long, so it looks at them once for each user of a node, whatever the number of streams; it returns how
// often that was.
func (l *Leader) RecheckAccess(now Instant) (looked int) {
	type userOfNode struct {
		path string
		node NodeID
		user Caller
	}
	known := make(map[userOfNode]Rights)
	for _, id := range slices.Sorted(maps.Keys(l.streams)) {
		a := l.streams[id]
		if a == nil {
			continue
		}
		key := userOfNode{a.path, a.node.id, a.caller}
		rights, found := known[key]
		if !found {
			rights = l.rights(a)
			known[key] = rights
		}
		if a.rights&^rights == 0 {
			continue
		}
		l.TurnAway(now, id, NoAccess)
	}
	return len(known)
}
