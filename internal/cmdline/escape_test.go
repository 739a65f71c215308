package cmdline

import (
	"bytes"
	"testing"
)

// What cannot be printed is escaped, also where a rune comes in two writes; what can is left alone.
func TestEscaper(t *testing.T) {
	var out bytes.Buffer
	e := Escaped(&out)
	for _, part := range []string{"a\tb\n", "\x1b[2J", "\xc3", "\xa9\xe2\x80", "\xae", "\xffz", "\U000E0001"} {
		if n, err := e.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := "a\tb\n" + `\x1b[2J` + "é" + `\u202e` + `\xffz` + `\U000e0001`; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
