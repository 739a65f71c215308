package scheme

import (
	"fmt"
	"slices"
)

// Permission is what one subject (a user or a group) may do. Names are those of permission_names.go in the order of
// their grants, never empty, each once.
type Permission struct {
	Subject string
	Names   []string
}

// ActionKind is what an Action does. The zero value is an action that the client left unset.
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

// PermissionsChange is what ModifyPermissions does, in the order Clear, Interrupt, Actions.
type PermissionsChange struct {
	Clear     bool  // first drop every permission of the entry
	Interrupt *bool // new value of Entry.InterruptInheritance, nil to leave it
	Actions   []Action
}

// aceBytes is about what the reference stores for one permission besides the subject.
const aceBytes = 12

// ACLSize is how many bytes owner and permissions count against Limits.ACLBytes. The reference measures its own stored
// form, which has one record with the subject in it for each name; this comes close to it. Counting the owner is
// ours: it keeps the whole row bounded.
func ACLSize(owner string, permissions []Permission) int {
	size := len(owner)
	for _, p := range permissions {
		size += len(p.Names) * (aceBytes + len(p.Subject))
	}
	return size
}

// ModifyPermissions changes owner and permissions of the entry at path (surface.md §4). Refusals: BAD_REQUEST for an
// unset action, an unknown name, too many actions, or more than Limits.ACLBytes after any of the actions; SCHEME_ERROR for a
// missing path. The actions are looked at before the path.
func (t *Tree) ModifyPermissions(path Path, change PermissionsChange) Outcome {
	if outcome := t.checkActions(change.Actions); !outcome.OK() {
		return outcome
	}
	v := t.find(path)
	if v == nil || v == t.root {
		return pathDoesNotExist()
	}
	after, size := t.apply(v.entry, change)
	if size > t.limits.ACLBytes {
		return checkFailed(BadRequest, path, fmt.Sprintf("ACL size limit exceeded, limit: %d, new ACL size: %d",
			t.limits.ACLBytes, size))
	}
	if !sameAccess(v.entry, after) {
		v.entry = after
		t.touch(v.entry.ID)
	}
	return Done()
}

// checkActions refuses what the reference refuses before it looks at the path.
func (t *Tree) checkActions(actions []Action) Outcome {
	if len(actions) > t.limits.Actions {
		return refuse(BadRequest, fmt.Sprintf("Too many permission actions, limit: %d", t.limits.Actions))
	}
	for _, action := range actions {
		switch action.Kind {
		case Grant, Revoke, Set:
			for _, name := range action.Names {
				if _, known := storedName(name); !known {
					return refuse(BadRequest, "Unknown permission name: "+shown(name))
				}
			}
		case ChangeOwner:
		default:
			return refuse(BadRequest, "Unknown permission action")
		}
	}
	return Done()
}

// apply returns e after the change, and its ACL size. It stops at the first action after which the size is over the
// limit, so that no list grows without bound.
func (t *Tree) apply(e Entry, change PermissionsChange) (Entry, int) {
	if change.Clear {
		e.Permissions = nil
	}
	if change.Interrupt != nil {
		e.InterruptInheritance = *change.Interrupt
	}
	size := ACLSize(e.Owner, e.Permissions)
	for _, action := range change.Actions {
		switch action.Kind {
		case Grant:
			e.Permissions = grant(e.Permissions, action.Subject, action.Names)
		case Revoke:
			e.Permissions = revoke(e.Permissions, action.Subject, action.Names)
		case Set:
			e.Permissions = grant(withoutSubject(e.Permissions, action.Subject), action.Subject, action.Names)
		case ChangeOwner:
			if action.Subject != "" {
				e.Owner = action.Subject
			}
		}
		if size = ACLSize(e.Owner, e.Permissions); size > t.limits.ACLBytes {
			break
		}
	}
	if len(e.Permissions) == 0 {
		e.Permissions = nil // one form for an empty list, whether it was emptied or never filled
	}
	return e, size
}

// grant returns permissions with names added to those of subject. Like its siblings below it leaves its argument
// alone, because entries given away share it.
func grant(permissions []Permission, subject string, names []string) []Permission {
	at := indexSubject(permissions, subject)
	var held []string
	if at >= 0 {
		held = slices.Clone(permissions[at].Names)
	}
	before := len(held)
	for _, name := range names {
		if name, _ := storedName(name); !slices.Contains(held, name) {
			held = append(held, name)
		}
	}
	switch {
	case len(held) == before:
		return permissions
	case at < 0:
		return append(slices.Clip(permissions), Permission{Subject: subject, Names: held})
	}
	permissions = slices.Clone(permissions)
	permissions[at].Names = held
	return permissions
}

// revoke returns permissions with names taken from those of subject, and without a subject that has none left.
func revoke(permissions []Permission, subject string, names []string) []Permission {
	at := indexSubject(permissions, subject)
	if at < 0 {
		return permissions
	}
	held := slices.Clone(permissions[at].Names)
	for _, name := range names {
		name, _ := storedName(name)
		held = slices.DeleteFunc(held, func(h string) bool { return h == name })
	}
	if len(held) == 0 {
		return withoutSubject(permissions, subject)
	}
	permissions = slices.Clone(permissions)
	permissions[at].Names = held
	return permissions
}

func withoutSubject(permissions []Permission, subject string) []Permission {
	return slices.DeleteFunc(slices.Clone(permissions), func(p Permission) bool { return p.Subject == subject })
}

func indexSubject(permissions []Permission, subject string) int {
	return slices.IndexFunc(permissions, func(p Permission) bool { return p.Subject == subject })
}

// sameAccess tells whether a change of owner, permissions and inheritance changed anything.
func sameAccess(a, b Entry) bool {
	return a.Owner == b.Owner && a.InterruptInheritance == b.InterruptInheritance &&
		slices.EqualFunc(a.Permissions, b.Permissions, func(p, q Permission) bool {
			return p.Subject == q.Subject && slices.Equal(p.Names, q.Names)
		})
}
