package scheme

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coordd/coordd/scheme/outcome"
)

func TestInDatabase(t *testing.T) {
	for _, c := range []struct{ path, database, want string }{
		{"n", "/local", "/local/n"},
		{"dir/n", "/local", "/local/dir/n"},
		{"n", "local", "/local/n"},
		{"n", "/a/b/", "/a/b/n"},
		{"a/n", "/a/b", "/a/b/a/n"},
		{"./n", "/local", "/local/n"},
		{"././/n/", "/local", "/local/n/"},
		{".", "/local", "/local"},
		{"./", "/local", "/local"},
		{"../n", "/local", "/local/../n"},
		{".n", "/local", "/local/.n"},
		{"", "/local", ""},
		{"/n", "/local", "/n"},
		{"/", "/local", "/"},
		{"local", "/local", "local"},
		{"local/n", "/local", "local/n"},
		{"local//n", "/local", "local//n"},
		{"locals/n", "/local", "/local/locals/n"},
		{"n", "", "n"},
		{"n", "/", "n"},
	} {
		if got := InDatabase(c.path, c.database); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.path, c.database, got, c.want)
		}
	}
}

func TestSplitLoose(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Path
		text string
	}{
		{"", nil, "/"},
		{"/", nil, "/"},
		{"///", nil, "/"},
		{"local", Path{"local"}, "/local"},
		{"/local", Path{"local"}, "/local"},
		{"local/x", Path{"local", "x"}, "/local/x"},
		{"//local///x//", Path{"local", "x"}, "/local/x"},
		{"/local/../x", Path{"local", "..", "x"}, "/local/../x"},
		{"/local/ ы", Path{"local", " ы"}, "/local/ ы"},
	} {
		got := SplitLoose(c.in)
		if !slices.Equal(got, c.want) || got.String() != c.text {
			t.Errorf("SplitLoose(%q) = %q, %q; want %q, %q", c.in, []string(got), got, []string(c.want),
				c.text)
		}
	}
}

func TestSplitInDatabase(t *testing.T) {
	outside := func(path, database string) string {
		return "BAD_REQUEST [0/1] Table path not in database, path: " + path + ", database: " + database
	}
	for _, c := range []struct {
		path, database string
		hasDatabase    bool
		want           string // the path, or the refusal
	}{
		{"/local/n", "/local", true, "/local/n"},
		{"local/n", "/local", true, "/local/n"},
		{"//local//a//n//", "local/", true, "/local/a/n"},
		{"/Root/db/n", "/Root/db", true, "/Root/db/n"},
		{"n", "/local", true, outside("n", "/local")},
		{"a/n", "/local", true, outside("a/n", "/local")},
		{"/local", "/local", true, outside("/local", "/local")},
		{"/local/", "/local", true, outside("/local/", "/local")},
		{"/localn", "/local", true, outside("/localn", "/local")},
		{"/other/n", "/local", true, outside("/other/n", "/local")},
		{"/Root/n", "/Root/db", true, outside("/Root/n", "/Root/db")},
		{"", "/local", true, outside("", "/local")},
		{"/", "/local", true, outside("/", "/local")},
		{"/local/n", "", false, "/local/n"},
		{"/local/n", "", true, "/local/n"},
		{"/local/n", "/", true, "/local/n"},
		{"/local/n", "/ignored", false, "/local/n"},
		{"/local", "", false, "BAD_REQUEST [0/1] Bad table path: /local"},
		{"n", "", false, "BAD_REQUEST [0/1] Bad table path: n"},
		{"", "", false, outside("", "")},
		{"//", "", false, outside("//", "")},
	} {
		path, answer := SplitInDatabase(c.path, c.database, c.hasDatabase)
		if got := pathOrRefusal(path, answer); got != c.want {
			t.Errorf("SplitInDatabase(%q, %q, %t) = %s; want %s", c.path, c.database, c.hasDatabase, got,
				c.want)
		}
	}
}

func TestSplitAtLastSlash(t *testing.T) {
	wrong := func(path string) string { return "BAD_REQUEST [0/1] wrong path format '" + path + "'" }
	for in, want := range map[string]string{
		"/local/n":    "/local/n",
		"local/n":     "/local/n",
		"//local//n":  "/local/n",
		"/local":      "/local",
		"":            wrong(""),
		"/":           wrong("/"),
		"n":           wrong("n"),
		"/local/n/":   wrong("/local/n/"),
		"/local/n///": wrong("/local/n///"),
	} {
		path, answer := SplitAtLastSlash(in)
		if got := pathOrRefusal(path, answer); got != want {
			t.Errorf("SplitAtLastSlash(%q) = %s; want %s", in, got, want)
		}
	}
}

func pathOrRefusal(path Path, answer outcome.Outcome) string {
	if answer.OK() {
		return path.String()
	}
	return answer.String()
}

// A path of very many components is cut before it costs memory, and is still too deep for any tree.
func TestSplitStopsAtMaxPathParts(t *testing.T) {
	atLimit := strings.Repeat("/a", MaxPathParts)
	tooMany := atLimit + "/b/c"
	for name, got := range map[string]Path{
		"loose at the limit": SplitLoose(atLimit),
		"loose":              SplitLoose(tooMany),
		"in database":        must(SplitInDatabase(tooMany, "/a", true))(t),
		"at last slash":      must(SplitAtLastSlash(tooMany))(t),
	} {
		if len(got) != MaxPathParts {
			t.Errorf("%s: %d components, want %d", name, len(got), MaxPathParts)
		}
	}
	if got := must(SplitAtLastSlash(tooMany))(t); got[MaxPathParts-1] != "c" {
		t.Errorf("last component is %q, want c", got[MaxPathParts-1])
	}
	tree := newTree(t, "/a", DefaultLimits())
	if answer := tree.makeDirectory(SplitLoose(tooMany), "", Stamp{}); answer.Status != outcome.SchemeError {
		t.Errorf("creation: %s", answer)
	}
}

func must(path Path, answer outcome.Outcome) func(*testing.T) Path {
	return func(t *testing.T) Path {
		t.Helper()
		if !answer.OK() {
			t.Fatalf("refused: %s", answer)
		}
		return path
	}
}

// Texts repeat a client's path only up to a bound, and are valid UTF-8 whatever the client sent.
func TestShownPath(t *testing.T) {
	atLimit := strings.Repeat("x", MaxShownBytes)
	for _, c := range []struct{ in, want string }{
		{atLimit, atLimit},
		{atLimit + "y", atLimit + "..."},
		{atLimit[1:] + "ыы", atLimit[1:] + "..."},
		{"\xff\xfe", "\uFFFD"},
	} {
		_, answer := SplitAtLastSlash(c.in)
		if got, want := answer.Issues[0].Message, "wrong path format '"+c.want+"'"; got != want {
			t.Errorf("%d bytes: got %d bytes, want %d", len(c.in), len(got), len(want))
		}
	}
}

func TestNameReason(t *testing.T) {
	longest := strings.Repeat("n", DefaultLimits().NameBytes)
	for name, want := range map[string]string{
		"a":                         "",
		"A-Za-z_0.9":                "",
		"!\"#$%&'()*+,:;<=>?@[]^`{": "",
		"\\|}~":                     "",
		"..a":                       "",
		".sys1":                     "",
		longest:                     "",
		longest + "n":               "path part is too long",
		"":                          "path part shouldn't be empty",
		".":                         "is not allowed path part contains only dots '.'",
		"...":                       "is not allowed path part contains only dots '...'",
		".sys":                      "path part '.sys' is reserved by the system",
		"a b":                       "symbol ' ' is not allowed in the path part 'a b'",
		"a/b":                       "symbol '/' is not allowed in the path part 'a/b'",
		"a\tb":                      "symbol '\t' is not allowed in the path part 'a\tb'",
		"\x00":                      "symbol '\x00' is not allowed in the path part '\x00'",
		"a\x7f":                     "symbol '\x7f' is not allowed in the path part 'a\x7f'",
		"été":                       "symbol 'é' is not allowed in the path part 'été'",
		"a\xff":                     "symbol '\xff' is not allowed in the path part 'a\xff'",
	} {
		if got := nameReason(name, DefaultLimits().NameBytes); got != want {
			t.Errorf("nameReason(%q) = %q, want %q", name, got, want)
		}
	}
}

// FuzzSplit: no parser panics, no component is empty or has a slash, and reading the canonical form again changes
// nothing.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "/", "n", "/local", "/local/n", "//local//n/", "local/n", "/local/\xff",
		"/\x00/.sys/.."} {
		f.Add(seed, "/local")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, in, database string) {
		loose := SplitLoose(in)
		checkParts(t, loose)
		if again := SplitLoose(loose.String()); !slices.Equal(again, loose) {
			t.Fatalf("%q again: %q", loose, again)
		}
		if path, answer := SplitInDatabase(in, database, true); accepted(t, answer) {
			checkParts(t, path)
			if !slices.Equal(path, loose) || len(path) <= len(SplitLoose(database)) {
				t.Fatalf("in %q: %q, want %q", database, path, loose)
			}
			if again, answer := SplitInDatabase(path.String(), database, true); !answer.OK() ||
				!slices.Equal(again, path) {
				t.Fatalf("%q again: %q, %s", path, again, answer)
			}
		}
		if path, answer := SplitAtLastSlash(in); accepted(t, answer) {
			checkParts(t, path)
			if again, answer := SplitAtLastSlash(path.String()); !answer.OK() || !slices.Equal(again, path) {
				t.Fatalf("%q again: %q, %s", path, again, answer)
			}
		}
	})
}

func checkParts(t *testing.T, path Path) {
	t.Helper()
	if len(path) > MaxPathParts {
		t.Fatalf("%d components", len(path))
	}
	for _, part := range path {
		if part == "" || strings.Contains(part, "/") {
			t.Fatalf("component %q in %q", part, []string(path))
		}
	}
}

func accepted(t *testing.T, answer outcome.Outcome) bool {
	t.Helper()
	if answer.OK() {
		return true
	}
	if answer.Status != outcome.BadRequest || len(answer.Issues) != 1 ||
		!utf8.ValidString(answer.Issues[0].Message) {
		t.Fatalf("refusal %s", answer)
	}
	return false
}

// TestTopOf: all that is in a directory directly below the database is its, however deep; what is directly there is of
// none.
func TestTopOf(t *testing.T) {
	tree, err := New("/Root/db")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/Root/db/t/n": "t", "/Root/db/t/Root/db/x/n": "t", "/Root/db/db/n": "db",
		"/Root/db/n": "", "/Root/db": "", "/": ""} {
		if got := tree.TopOf(SplitLoose(path)); got != want {
			t.Errorf("%s is in %q, want %q", path, got, want)
		}
	}
}
