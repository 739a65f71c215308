package scheme

import (
	"iter"
	"slices"

	"github.com/coordd/coordd/scheme/outcome"
)

// Lineage is an entry and those above it whose permissions count at it, nearest first, as they were at one
// moment: up to and including the first that interrupts inheritance. Nothing that it refers to ever changes,
// so it may be read while the tree goes on. The lineage of a path that does not exist is empty.
type Lineage []Entry

// lineage looks at one row for each component of the path, and one more.
func (t *Tree) lineage(v *vertex) Lineage {
	var l Lineage
	for e := range v.upwards() {
		l = append(l, *e)
	}
	return l
}

// EffectivePermissions returns what counts at the entry: its own permissions, then those inherited from the
// entries above. Each subject appears once, where it is met first. ydb.database.connect is not inherited. The
// cost is linear in the permissions of the lineage.
func (l Lineage) EffectivePermissions() []Permission {
	var effective []Permission
	at := make(map[string]int)
	for i := range l {
		for _, p := range l[i].Permissions {
			place, met := at[p.Subject]
			if !met {
				place = len(effective)
				effective = append(effective, Permission{Subject: p.Subject})
			}
			held := effective[place].Names
			for _, name := range p.Names {
				if name, _ := storedName(name); !slices.Contains(held, name) &&
					(i == 0 || name != permissionConnect) {
					held = append(held, name)
				}
			}
			switch {
			case len(held) > 0:
				effective[place].Names, at[p.Subject] = held, place
			case !met: // nothing but the right to connect
				effective = effective[:place]
			}
		}
	}
	return effective
}

// Given is a permission that a subject has at an entry.
type Given struct {
	Subject, Name string
	Level         int // where it was given, as a place in the lineage
}

// Given returns the permissions that EffectivePermissions joins, the nearest first.
func (l Lineage) Given() (given []Given) {
	for i := range l {
		for _, p := range l[i].Permissions {
			for _, name := range p.Names {
				if name, _ := storedName(name); i == 0 || name != permissionConnect {
					given = append(given, Given{p.Subject, name, i})
				}
			}
		}
	}
	return given
}

// Rights returns what a subject may do at the entry: everything if it owns the entry or is exempt, otherwise
// what EffectivePermissions gives to it and to AllUsers.
func (l Lineage) Rights(s Subject) Access {
	return rights(func(yield func(*Entry) bool) {
		for i := range l {
			if !yield(&l[i]) {
				return
			}
		}
	}, s)
}

// Authorize refuses with UNAUTHORIZED unless the subject has all of need at path, whose lineage this is. A
// path that does not exist passes: the operation itself refuses it.
func (l Lineage) Authorize(path Path, need Access, s Subject) outcome.Outcome {
	if len(l) == 0 || l.Rights(s)&need == need {
		return outcome.Done()
	}
	return accessDenied(s, path)
}

// rights returns the rights that the entries of a lineage give to a subject.
func rights(lineage iter.Seq[*Entry], s Subject) Access {
	switch {
	case s.Exempt:
		return FullAccess
	case s.Name == "":
		return 0
	}
	var access Access
	own := true
	for e := range lineage {
		if own && s.Name == e.Owner {
			return FullAccess
		}
		for _, p := range e.Permissions {
			if p.Subject != s.Name && p.Subject != AllUsers {
				continue
			}
			given := accessOf(p.Names)
			if !own && !slices.ContainsFunc(p.Names, includesConnect) {
				given &^= Connect // ydb.database.connect is not inherited
			}
			access |= given
		}
		own = false
	}
	return access
}
