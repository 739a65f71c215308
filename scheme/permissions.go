package scheme

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/scheme/outcome"
)

// ActionKind is the kind of an Action. The zero value is an action that the client left unset.
type ActionKind uint8

// The kinds of actions, named as in Ydb.Scheme.PermissionsAction.
const (
	Grant       ActionKind = 1 // add Names to the subject's
	Revoke      ActionKind = 2 // take Names from the subject's
	Set         ActionKind = 3 // replace the subject's by Names
	ChangeOwner ActionKind = 4 // Subject becomes the owner; an empty one is ignored
)

// Action is one step of ModifyPermissions.
type Action struct {
	Kind    ActionKind
	Subject string
	Names   []string // not for ChangeOwner
}

// String returns the action in words, such as "grant alice ydb.generic.use".
func (a *Action) String() string {
	verbs := map[ActionKind]string{Grant: "grant", Revoke: "revoke", Set: "set", ChangeOwner: "owner"}
	return strings.Join(append([]string{verbs[a.Kind], a.Subject}, a.Names...), " ")
}

// PermissionsChange describes a ModifyPermissions, which executes Clear, Interrupt and Actions in this order.
type PermissionsChange struct {
	Clear     bool  // first drop every permission of the entry
	Interrupt *bool // new value of Entry.InterruptInheritance, nil to leave it
	Actions   []Action
}

// ACLSize is the size of owner and permissions that Limits.ACLBytes bounds. The reference measures its own stored form,
// which has one record with the subject in it for each name; this comes close to it. Counting the owner is ours: it
// keeps the whole row bounded.
func ACLSize(owner string, permissions []Permission) int {
	size := len(owner)
	for _, p := range permissions {
		size += len(p.Names) * (aceBytes + len(p.Subject))
	}
	return size
}

// ModifyPermissions judges a change of owner and permissions of the entry at path (surface.md §4). Refusals:
// BAD_REQUEST for an unset action, an unknown name, too many actions, or more than Limits.ACLBytes after any
// of the actions; SCHEME_ERROR for a missing path; PRECONDITION_FAILED beyond Bound. The actions are looked
// at before the path.
func (t *Tree) ModifyPermissions(path Path, change PermissionsChange) (Step, outcome.Outcome) {
	if answer := t.checkActions(change.Actions); !answer.OK() {
		return nil, answer
	}
	v := t.find(path)
	if v == nil || v == t.root {
		return nil, pathDoesNotExist()
	}
	after, size := t.apply(v.entry, change)
	if size > t.limits.ACLBytes {
		return nil, checkFailed(outcome.BadRequest, path,
			fmt.Sprintf("ACL size limit exceeded, limit: %d, new ACL size: %d", t.limits.ACLBytes, size))
	}
	if sameAccess(v.entry, after) {
		return nil, outcome.Done()
	}
	before, now := EntryBytes(&v.entry), EntryBytes(&after)
	if now > before {
		if answer := t.refuseGrowth(v, now-before, 0); !answer.OK() {
			return nil, answer
		}
	}
	return func() {
		t.count(v, now-before, 0)
		v.entry = after
		t.touch(v.entry.ID)
	}, outcome.Done()
}

// checkActions refuses what the reference refuses before it looks at the path.
func (t *Tree) checkActions(actions []Action) outcome.Outcome {
	if len(actions) > t.limits.Actions {
		return outcome.Because(outcome.BadRequest,
			fmt.Sprintf("Too many permission actions, limit: %d", t.limits.Actions))
	}
	for _, action := range actions {
		switch action.Kind {
		case Grant, Revoke, Set:
			for _, name := range action.Names {
				if _, known := storedName(name); !known {
					return outcome.Because(outcome.BadRequest, "Unknown permission name: "+Shown(name))
				}
			}
		case ChangeOwner:
		default:
			return outcome.Because(outcome.BadRequest, "Unknown permission action")
		}
	}
	return outcome.Done()
}

// apply returns e after the change, and its ACL size. It stops at the first action after which the size is
// over the limit, so that no list grows without bound. The cost is linear in what e has and in the change.
func (t *Tree) apply(e Entry, change PermissionsChange) (Entry, int) {
	if change.Clear {
		e.Permissions = nil
	}
	if change.Interrupt != nil {
		e.InterruptInheritance = *change.Interrupt
	}
	list := newPermissionList(e.Permissions)
	for _, action := range change.Actions {
		switch action.Kind {
		case Grant:
			list.grant(action.Subject, action.Names)
		case Revoke:
			list.revoke(action.Subject, action.Names)
		case Set:
			list.drop(action.Subject)
			list.grant(action.Subject, action.Names)
		case ChangeOwner:
			if action.Subject != "" {
				e.Owner = action.Subject
			}
		}
		if len(e.Owner)+list.size > t.limits.ACLBytes {
			break
		}
	}
	e.Permissions = list.permissions()
	return e, len(e.Owner) + list.size
}

// permissionList is the permissions of an entry while a change is made. Those that it was made of stay as
// they are, because entries given away share them.
type permissionList struct {
	list []Permission   // those without names are gone
	at   map[string]int // where a subject is in list
	size int            // as ACLSize counts them
}

func newPermissionList(of []Permission) *permissionList {
	l := &permissionList{list: slices.Clone(of), at: make(map[string]int, len(of)), size: ACLSize("", of)}
	for i, p := range of {
		l.at[p.Subject] = i
	}
	return l
}

// permissions is the list as an entry holds it: nil if it is empty, whether it was emptied or never filled.
func (l *permissionList) permissions() []Permission {
	list := slices.DeleteFunc(l.list, func(p Permission) bool { return len(p.Names) == 0 })
	if len(list) == 0 {
		return nil
	}
	return slices.Clip(list)
}

// set replaces the names of a subject. A new subject comes last; a subject without names is removed.
func (l *permissionList) set(subject string, names []string) {
	place, has := l.at[subject]
	switch {
	case !has && len(names) == 0:
		return
	case !has:
		place = len(l.list)
		l.list, l.at[subject] = append(l.list, Permission{Subject: subject}), place
	case len(names) == 0:
		delete(l.at, subject)
	}
	l.size += (len(names) - len(l.list[place].Names)) * (aceBytes + len(subject))
	l.list[place].Names = names
}

// names is a copy of the names that a subject has.
func (l *permissionList) names(subject string) []string {
	if place, has := l.at[subject]; has {
		return slices.Clone(l.list[place].Names)
	}
	return nil
}

// grant adds names to those of a subject.
func (l *permissionList) grant(subject string, names []string) {
	held := l.names(subject)
	for _, name := range names {
		if name, _ := storedName(name); !slices.Contains(held, name) {
			held = append(held, name)
		}
	}
	l.set(subject, held)
}

// revoke takes names from those of a subject.
func (l *permissionList) revoke(subject string, names []string) {
	held := l.names(subject)
	for _, name := range names {
		name, _ := storedName(name)
		held = slices.DeleteFunc(held, func(h string) bool { return h == name })
	}
	l.set(subject, held)
}

// drop takes all names from a subject.
func (l *permissionList) drop(subject string) { l.set(subject, nil) }

// sameAccess reports whether a change of owner, permissions and inheritance changed anything.
func sameAccess(a, b Entry) bool {
	return a.Owner == b.Owner && a.InterruptInheritance == b.InterruptInheritance &&
		slices.EqualFunc(a.Permissions, b.Permissions, func(p, q Permission) bool {
			return p.Subject == q.Subject && slices.Equal(p.Names, q.Names)
		})
}
