package scheme

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coordd/coordd/scheme/outcome"
)

// Path is an absolute path as its components from the root down. The empty Path is "/". A Path made by the
// functions of this file has no empty component and none with a slash; whether the names are allowed is
// checked on creation only.
type Path []string

// String returns the canonical form: a slash before each component, "/" for the empty path.
func (p Path) String() string {
	if len(p) == 0 {
		return "/"
	}
	return "/" + strings.Join(p, "/")
}

// SplitLoose reads the path of SessionStart, DescribeNode, ListDirectory and DescribePath: repeated, leading
// and trailing slashes mean nothing (surface.md §3.1). A relative path has been resolved before, see InDatabase.
// An empty result means "/".
func SplitLoose(path string) Path {
	return splitParts(path, MaxPathParts)
}

// InDatabase returns the absolute form of a path that is relative to the database of its call, and every other
// path as it is: an empty one, one with a leading slash, and one that begins with all components of the database,
// which clients of older servers send without the slash. "./" before a relative path means nothing, and "." is the
// database (surface.md §3.1). Without a database no path is relative.
func InDatabase(path, database string) string {
	root := SplitLoose(database)
	if path == "" || path[0] == '/' || len(root) == 0 {
		return path
	}
	if parts := SplitLoose(path); len(parts) >= len(root) && slices.Equal(parts[:len(root)], root) {
		return path
	}
	relative := path
	for rest, found := strings.CutPrefix(relative, "./"); found; rest, found = strings.CutPrefix(relative, "./") {
		relative = strings.TrimLeft(rest, "/")
	}
	if relative == "" || relative == "." {
		return root.String()
	}
	return root.String() + "/" + relative
}

// SplitInDatabase reads the path of CreateNode and MakeDirectory, which must lie strictly below the database
// of the request (coordination.md §1.1 step 1). Slashes are taken as SplitLoose takes them. Without a database,
// or with an empty one, at least two components are wanted. Refusals are BAD_REQUEST.
func SplitInDatabase(path, database string, hasDatabase bool) (Path, outcome.Outcome) {
	if !hasDatabase {
		database = ""
	}
	parts, root := SplitLoose(path), SplitLoose(database)
	switch {
	case len(parts) <= len(root), !slices.Equal(parts[:len(root)], root):
		return nil, outcome.Because(outcome.BadRequest,
			fmt.Sprintf("Table path not in database, path: %s, database: %s", Shown(path), Shown(database)))
	case len(root) == 0 && len(parts) < 2:
		return nil, outcome.Because(outcome.BadRequest, "Bad table path: "+Shown(path))
	}
	return parts, outcome.Done()
}

// SplitAtLastSlash reads the path of AlterNode, DropNode, RemoveDirectory and ModifyPermissions. The database
// is not consulted; a path without a slash or with one at its end is refused with BAD_REQUEST
// (coordination.md §1.2 step 1).
func SplitAtLastSlash(path string) (Path, outcome.Outcome) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 || at == len(path)-1 {
		return nil, outcome.Because(outcome.BadRequest, fmt.Sprintf("wrong path format '%s'", Shown(path)))
	}
	return append(splitParts(path[:at], MaxPathParts-1), path[at+1:]), outcome.Done()
}

// splitParts returns the first most non-empty components of path.
func splitParts(path string, most int) Path {
	var parts Path
	for len(path) > 0 && len(parts) < most {
		part, rest, _ := strings.Cut(path, "/")
		if part != "" {
			parts = append(parts, part)
		}
		path = rest
	}
	return parts
}

const reservedName = ".sys"

// nameReason says why a component cannot be created, or returns "" (surface.md §4.1). The order is the
// reference's.
func nameReason(name string, maxBytes int) string {
	switch {
	case name == "":
		return "path part shouldn't be empty"
	case len(name) > maxBytes:
		return "path part is too long"
	case name == reservedName:
		return "path part '" + reservedName + "' is reserved by the system"
	case strings.Trim(name, ".") == "":
		return fmt.Sprintf("is not allowed path part contains only dots '%s'", name)
	}
	if at := strings.IndexFunc(name, forbiddenInName); at >= 0 {
		_, size := utf8.DecodeRuneInString(name[at:])
		return fmt.Sprintf("symbol '%s' is not allowed in the path part '%s'", name[at:at+size], name)
	}
	return ""
}

// forbiddenInName is everything but printable ASCII, and of that the slash and the space.
func forbiddenInName(r rune) bool {
	return r <= ' ' || r > '~' || r == '/'
}

// databaseNameReason is the narrower rule for the components of the database's own path.
func databaseNameReason(name string, maxBytes int) string {
	if reason := nameReason(name, maxBytes); reason != "" {
		return reason
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Sprintf("symbol '%c' is not allowed in a database name", c)
		}
	}
	return ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// Shown bounds what a text repeats of a client's path.
func Shown(path string) string {
	if len(path) <= MaxShownBytes {
		return path
	}
	cut := MaxShownBytes
	for cut > MaxShownBytes-utf8.UTFMax && !utf8.RuneStart(path[cut]) {
		cut--
	}
	return path[:cut] + "..."
}
