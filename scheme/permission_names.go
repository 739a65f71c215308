package scheme

import (
	"slices"
	"strings"
)

// permissionConnect is the one permission that the entries below do not inherit: it is about the database
// itself.
const permissionConnect = "ydb.database.connect"

// permissionNames are all names that can be stored, in ascending order.
var permissionNames = []string{
	"ydb.access.grant",
	permissionConnect,
	"ydb.database.create",
	"ydb.database.drop",
	"ydb.generic.full",
	"ydb.generic.full_legacy",
	"ydb.generic.list",
	"ydb.generic.manage",
	"ydb.generic.read",
	"ydb.generic.use",
	"ydb.generic.use_legacy",
	"ydb.generic.write",
	"ydb.granular.alter_schema",
	"ydb.granular.create_directory",
	"ydb.granular.create_queue",
	"ydb.granular.create_table",
	"ydb.granular.describe_schema",
	"ydb.granular.erase_row",
	"ydb.granular.read_attributes",
	"ydb.granular.remove_schema",
	"ydb.granular.select_row",
	"ydb.granular.update_row",
	"ydb.granular.write_attributes",
	"ydb.tables.modify",
	"ydb.tables.read",
}

const (
	granularPrefix   = "ydb.granular."
	deprecatedPrefix = "ydb.deprecated." // older spelling of every granular name
)

// storedName returns the name under which a permission is kept, false if there is no such permission.
func storedName(name string) (string, bool) {
	if rest, deprecated := strings.CutPrefix(name, deprecatedPrefix); deprecated {
		name = granularPrefix + rest
	}
	_, known := slices.BinarySearch(permissionNames, name)
	return name, known
}

// Permission has the rights of one subject, a user or a group. Names are those of permission_names.go in the order of
// their grants, never empty, each once.
type Permission struct {
	Subject string
	Names   []string
}
