package serve

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/monitor"
	"github.com/coordd/coordd/server/statelimit"
)

// File is the absolute path of a file, which need not exist until it is opened; Directory is that of a directory.
type (
	File      string
	Directory string
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *File) UnmarshalText(text []byte) error {
	path, err := absolute(text)
	if *f = File(path); err != nil {
		return errors.New("want the path of a file")
	}
	return nil
}

// Socket is the absolute path of a socket to make.
type Socket string

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Socket) UnmarshalText(text []byte) error {
	path, err := absolute(text)
	if *s = Socket(path); err != nil {
		return errors.New("want the path of a socket")
	}
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Directory) UnmarshalText(text []byte) error {
	path, err := absolute(text)
	if *d = Directory(path); err != nil {
		return errors.New("want the path of a directory, which is made if it does not exist")
	}
	return nil
}

func absolute(text []byte) (string, error) {
	if len(text) == 0 || strings.ContainsRune(string(text), 0) {
		return "", errors.New("no path")
	}
	return filepath.Abs(string(text))
}

// Database is the absolute path that clients name.
type Database string

// maxDatabaseBytes keeps the connection string, which holds the database, short
// enough for any client.
const maxDatabaseBytes = 1024

// UnmarshalText implements encoding.TextUnmarshaler. It allows what the path tree allows, in its one plain spelling,
// since the connection string repeats it.
func (d *Database) UnmarshalText(text []byte) error {
	const allowed = "want an absolute path such as /local, of at most 1024 bytes"
	value := string(text)
	if !strings.HasPrefix(value, "/") || path.Clean(value) != value || len(value) > maxDatabaseBytes {
		return errors.New(allowed)
	}
	if _, err := scheme.New(value); err != nil {
		return fmt.Errorf("%s: %w", allowed, err)
	}
	*d = Database(value)
	return nil
}

// Size is a number of bytes.
type Size uint64

// SizeUnits lists the endings of sizes, the longest first.
var SizeUnits = []struct {
	Ending string
	Bytes  uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"", 1}}

// UnmarshalText implements encoding.TextUnmarshaler. It takes a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	for _, unit := range SizeUnits {
		digits, found := strings.CutSuffix(string(text), unit.Ending)
		number, err := strconv.ParseUint(digits, 10, 64)
		if found && err == nil && number <= 1<<50/unit.Bytes {
			*s = Size(number * unit.Bytes)
			return nil
		}
	}
	return errors.New("want a number of bytes up to 1024TiB, such as 128MiB; the units are KiB, MiB, GiB and TiB")
}

// StateLimit is a limit on the state in bytes, or statelimit.Unlimited.
type StateLimit uint64

// UnlimitedText disables the state limit.
const UnlimitedText = "unlimited"

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *StateLimit) UnmarshalText(text []byte) error {
	if string(text) == UnlimitedText {
		*l = statelimit.Unlimited
		return nil
	}
	var size Size
	if err := size.UnmarshalText(text); err != nil || size < statelimit.Min {
		return errors.New("want 1MiB to 1024TiB, such as 384MiB, or " + UnlimitedText +
			"; the units are KiB, MiB, GiB and TiB")
	}
	*l = StateLimit(size)
	return nil
}

// Required reports whether something is required, not optional.
type Required bool

// UnmarshalText implements encoding.TextUnmarshaler for the words of the setting.
func (r *Required) UnmarshalText(text []byte) error {
	*r = string(text) == "required"
	return nil
}

// UserName is the name of a user.
type UserName string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *UserName) UnmarshalText(text []byte) error {
	*n = UserName(text)
	if *n == "" || strings.ContainsFunc(string(text), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("want a name of printable ASCII characters without spaces")
	}
	return nil
}

// Resources are resources of rate limiters that have metrics of their own: NODE=RESOURCE, with commas between them.
type Resources string

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Resources) UnmarshalText(text []byte) error {
	*r = Resources(text)
	_, err := r.list()
	return err
}

// list takes the setting apart. A path of a resource has no = in it.
func (r Resources) list() ([]monitor.Resource, error) {
	return namedList(string(r), "want paths of coordination nodes and of resources, such as "+
		"/local/app=reports,/local/app=reports/daily", func(text string) (monitor.Resource, bool) {
		at := strings.LastIndexByte(text, '=')
		if at < 0 || !IsResource(text[at+1:]) {
			return monitor.Resource{}, false
		}
		return monitor.Resource{Node: text[:at], Path: text[at+1:]}, true
	})
}

// Semaphores are semaphores that have metrics of their own: NODE=SEMAPHORE, with commas between them.
type Semaphores string

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Semaphores) UnmarshalText(text []byte) error {
	*s = Semaphores(text)
	_, err := s.list()
	return err
}

// list takes the setting apart. A path of a node has no = in it.
func (s Semaphores) list() ([]monitor.Semaphore, error) {
	return namedList(string(s), "want paths of coordination nodes and names of semaphores in UTF-8, such as "+
		"/local/app=nightly-report,/local/app=leader", func(text string) (monitor.Semaphore, bool) {
		node, name, found := strings.Cut(text, "=")
		return monitor.Semaphore{Node: node, Name: name}, found && name != ""
	})
}

// namedList takes apart a list of things below nodes that have metrics of their own.
func namedList[T comparable](list, want string, parse func(string) (T, bool)) (things []T, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if list == "" {
			break
		}
		thing, allowed := parse(text)
		if !allowed || !strings.HasPrefix(text, "/") || !utf8.ValidString(text) {
			return nil, errors.New(want)
		}
		if slices.Contains(things, thing) {
			return nil, fmt.Errorf("%s is there twice", text)
		}
		things = append(things, thing)
	}
	if len(things) > monitor.MaxNamed {
		return nil, fmt.Errorf("want %d at most", monitor.MaxNamed)
	}
	return things, nil
}

// IsResource reports whether a text can be the path of a rate limiter's resource.
func IsResource(path string) bool {
	return path != "" && !strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/") &&
		!strings.Contains(path, "//")
}
