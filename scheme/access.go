package scheme

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/coordd/coordd/scheme/outcome"
)

// Access is a set of elementary rights, as the granular permissions name them.
type Access uint32

// The elementary rights.
const (
	SelectRow Access = 1 << iota
	UpdateRow
	EraseRow
	ReadAttributes
	WriteAttributes
	CreateDirectory
	CreateTable // also what a coordination node's creation needs (coordination.md §1.1 step 2)
	CreateQueue
	RemoveSchema
	DescribeSchema
	AlterSchema
	CreateDatabase
	DropDatabase
	GrantAccess
	Connect

	// FullAccess is every right there is: an owner's.
	FullAccess Access = 1<<iota - 1
)

// The generic permissions, in terms of the elementary rights.
const (
	genericList       = ReadAttributes | DescribeSchema
	genericRead       = SelectRow | genericList
	genericWrite      = UpdateRow | EraseRow | WriteAttributes | genericAlter
	genericAlter      = CreateDirectory | CreateTable | CreateQueue | RemoveSchema | AlterSchema
	genericUseLegacy  = genericRead | genericWrite | GrantAccess
	genericUse        = genericUseLegacy | Connect
	genericManage     = CreateDatabase | DropDatabase
	genericFullLegacy = genericUseLegacy | genericManage
	genericFull       = genericUse | genericManage
)

// namedAccess has the access that each permission of the stored names allows.
var namedAccess = map[string]Access{
	"ydb.access.grant":              GrantAccess,
	permissionConnect:               Connect,
	"ydb.database.create":           CreateDatabase,
	"ydb.database.drop":             DropDatabase,
	"ydb.generic.full":              genericFull,
	"ydb.generic.full_legacy":       genericFullLegacy,
	"ydb.generic.list":              genericList,
	"ydb.generic.manage":            genericManage,
	"ydb.generic.read":              genericRead,
	"ydb.generic.use":               genericUse,
	"ydb.generic.use_legacy":        genericUseLegacy,
	"ydb.generic.write":             genericWrite,
	"ydb.granular.alter_schema":     AlterSchema,
	"ydb.granular.create_directory": CreateDirectory,
	"ydb.granular.create_queue":     CreateQueue,
	"ydb.granular.create_table":     CreateTable,
	"ydb.granular.describe_schema":  DescribeSchema,
	"ydb.granular.erase_row":        EraseRow,
	"ydb.granular.read_attributes":  ReadAttributes,
	"ydb.granular.remove_schema":    RemoveSchema,
	"ydb.granular.select_row":       SelectRow,
	"ydb.granular.update_row":       UpdateRow,
	"ydb.granular.write_attributes": WriteAttributes,
	"ydb.tables.modify":             UpdateRow | EraseRow,
	"ydb.tables.read":               SelectRow,
}

// accessOf returns the access that permission names allow together. An unknown name allows nothing.
func accessOf(names []string) Access {
	var access Access
	for _, name := range names {
		if stored, known := storedName(name); known {
			access |= namedAccess[stored]
		}
	}
	return access
}

// AccessOf returns the access that a permission allows; an unknown one allows nothing.
func AccessOf(name string) Access { return accessOf([]string{name}) }

// elementary are the permissions that allow a right each, in the order of the rights.
var elementary = [...]string{"ydb.granular.select_row", "ydb.granular.update_row", "ydb.granular.erase_row",
	"ydb.granular.read_attributes", "ydb.granular.write_attributes", "ydb.granular.create_directory",
	"ydb.granular.create_table", "ydb.granular.create_queue", "ydb.granular.remove_schema",
	"ydb.granular.describe_schema", "ydb.granular.alter_schema", "ydb.database.create", "ydb.database.drop",
	"ydb.access.grant", permissionConnect}

// Names returns the permission that allows each of the rights.
func (a Access) Names() (names []string) {
	for i, name := range elementary {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// AllUsers is the group of all named subjects.
const AllUsers = "all-users@well-known"

// SubjectBytesMax bounds the name of a subject: of a user, on a token, or on a certificate.
const SubjectBytesMax = 1024

// IsSubject reports whether a name can be that of a subject. Names are stored and sent as text, so everything else is
// refused where it enters.
func IsSubject(name string) bool {
	return name != "" && len(name) <= SubjectBytesMax && utf8.ValidString(name)
}

// Subject is the caller. The zero Subject is anonymous, and has no rights.
type Subject struct {
	// Name is a user's; empty for an anonymous caller.
	Name string
	// Exempt subjects may do everything: administrators, and everybody where access is not controlled.
	Exempt bool
}

// Rights returns what a subject may do at an entry of the tree, see Lineage.Rights.
func (t *Tree) Rights(e Entry, s Subject) Access { return rights(t.get(e.ID).upwards(), s) }

// includesConnect reports whether a permission other than ydb.database.connect itself allows to connect.
func includesConnect(name string) bool {
	return name != permissionConnect && namedAccess[name]&Connect != 0
}

// Authorize refuses with UNAUTHORIZED unless the subject has all of need at path. A path that does not exist
// passes: the operation itself refuses it, before the check of rights (coordination.md §1.2 step 2).
func (t *Tree) Authorize(path Path, need Access, s Subject) outcome.Outcome {
	if s.Exempt {
		return outcome.Done()
	}
	v := t.find(path)
	if v == nil || t.Rights(v.entry, s)&need == need {
		return outcome.Done()
	}
	return accessDenied(s, path)
}

// AuthorizeCreation is Authorize for a creation at path: the rights count at the nearest entry above it that exists
// (coordination.md §1.1 step 2). If there is no such entry, the operation itself refuses.
func (t *Tree) AuthorizeCreation(path Path, need Access, s Subject) outcome.Outcome {
	if s.Exempt || len(path) == 0 {
		return outcome.Done()
	}
	base, depth := t.deepest(path[:len(path)-1])
	if depth == 0 || t.Rights(base.entry, s)&need == need {
		return outcome.Done()
	}
	return accessDenied(s, base.path())
}

// AuthorizePermissions is Authorize for ModifyPermissions. A subject with ydb.access.grant may set, grant and revoke
// the rights that it has itself; only a subject with all rights may change the owner and the inheritance, or clear
// everything.
func (t *Tree) AuthorizePermissions(path Path, change PermissionsChange, s Subject) outcome.Outcome {
	need := GrantAccess
	explicit := t.explicitAccess(path, change)
	if change.Clear || change.Interrupt != nil {
		need = FullAccess
	}
	for _, action := range change.Actions {
		switch action.Kind {
		case ChangeOwner:
			need = FullAccess
		case Set:
			need |= accessOf(action.Names) | explicit[action.Subject]
		default:
			need |= accessOf(action.Names)
		}
	}
	if answer := t.checkActions(change.Actions); !answer.OK() {
		return outcome.Done() // ModifyPermissions checks the actions first and refuses
	}
	return t.Authorize(path, need, s)
}

// explicitAccess returns the access that the entry at path itself gives to its subjects, and that a Set would take from
// them. It is nil for a change without a Set.
func (t *Tree) explicitAccess(path Path, change PermissionsChange) map[string]Access {
	v := t.find(path)
	if v == nil || !slices.ContainsFunc(change.Actions, func(a Action) bool { return a.Kind == Set }) {
		return nil
	}
	access := make(map[string]Access, len(v.entry.Permissions))
	for _, p := range v.entry.Permissions {
		access[p.Subject] |= accessOf(p.Names)
	}
	return access
}

func accessDenied(s Subject, path Path) outcome.Outcome {
	who := s.Name
	if who == "" {
		who = "an anonymous user"
	}
	return outcome.Denied(fmt.Sprintf("Access denied for %s on path %s", who, Shown(path.String())))
}
