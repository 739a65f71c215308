package inspect

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestShown is how what clients have chosen is cut.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"a lock":                           "a lock",
		"a\x1b]0;title\x07\r\nb":           "a]0;titleb",
		"left\u202eright\u2066":            "leftright",
		"\x85\xff":                         "\ufffd\ufffd",
		"ключ":                             "ключ",
		strings.Repeat("x", 129):           strings.Repeat("x", 128),
		strings.Repeat("ä", 65):            strings.Repeat("ä", 64),
		"x" + strings.Repeat("ä", 65):      "x" + strings.Repeat("ä", 63),
		strings.Repeat("\x00", 1000) + "x": "",
	} {
		if got := Shown(text); got != want || !utf8.ValidString(got) {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if got := Shown([]byte(text)); got != want {
			t.Errorf("the bytes %q are shown as %q", text, got)
		}
	}
}
