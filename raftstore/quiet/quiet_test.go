package quiet

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// What goes on is told ever more rarely, with how much was not told, and anew after a pause.
func TestPace(t *testing.T) {
	var p Pace
	now := time.Unix(1, 0)
	told, events := 0, 0
	for range 3600 {
		if ok, hidden := p.Tells(now); ok {
			told++
			events += hidden + 1
		}
		now = now.Add(time.Second)
	}
	if told < 10 || told > 25 {
		t.Errorf("told %d times in an hour", told)
	}
	if ok, hidden := p.Tells(now.Add(2 * Most)); !ok || events+hidden != 3600 {
		t.Errorf("told %v, %d of 3600 events counted", ok, events+hidden)
	}
	if ok, _ := p.Tells(now.Add(2*Most + Least)); !ok {
		t.Error("the pause is still long after a long silence")
	}
}

// What comes and goes is told ever more rarely, and what it is in the end is told nevertheless; what stays is
// told once.
func TestState(t *testing.T) {
	var s State
	now := time.Unix(1, 0)
	if ok, _ := s.Tells("", now); ok {
		t.Error("that nothing is the matter is told")
	}
	told, hid := 0, 0
	for n := range 1000 {
		if ok, hidden := s.Tells([]string{"up", "down"}[n%2], now); ok {
			told++
			hid += hidden
		}
		now = now.Add(time.Second)
	}
	if told < 5 || told > 15 || told+hid > 1000 {
		t.Errorf("told %d of 1000 changes, %d were not", told, hid)
	}
	s.Note("down")
	now = now.Add(Most)
	if ok, _ := s.Tells("down", now); ok {
		t.Error("told again")
	}
	if ok, _ := s.Tells("up", now); !ok || s.Told() != "up" {
		t.Errorf("in the end %q is told", s.Told())
	}
}

// Whoever makes up kinds fills neither the log nor the memory.
func TestKinds(t *testing.T) {
	var k Kinds
	now := time.Unix(1, 0)
	told := 0
	for n := range 100_000 {
		if ok, _ := k.Tells(fmt.Sprint(n), now); ok {
			told++
		}
		now = now.Add(time.Millisecond)
	}
	if told > kindsMax+10 || len(k.paces) > kindsMax {
		t.Errorf("told %d times, %d kinds are kept", told, len(k.paces))
	}
	now = now.Add(2 * Most)
	k.Tells("another", now)
	if ok, hidden := k.Tells("another", now.Add(Least)); !ok || hidden != 0 || len(k.paces) > 1 {
		t.Errorf("a kind after a long silence has no pace of its own: %v, %d, %d kinds", ok, hidden,
			len(k.paces))
	}
}

// What a client has chosen cannot fill a line, nor begin another one, in either form of the log.
func TestCut(t *testing.T) {
	for text, want := range map[string]string{
		"app":                    "text=app",
		"a b":                    `text="a b"`,
		"x\nlevel=ERROR":         `text="x\nlevel=ERROR"`,
		"\x1b[2J":                `text="\x1b[2J"`,
		strings.Repeat("a", 129): "text=" + strings.Repeat("a", 128) + "...",
	} {
		var line strings.Builder
		slog.New(slog.NewTextHandler(&line, nil)).Info("", "text", Cut(text))
		if got := strings.TrimSpace(line.String()); !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		line.Reset()
		slog.New(slog.NewJSONHandler(&line, nil)).Info("", "text", Cut(text))
		if got := strings.TrimSpace(line.String()); strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// TestPrintable is how what others have chosen is cut where people are shown it.
func TestPrintable(t *testing.T) {
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
		if got := Printable(text, 128); got != want || !utf8.ValidString(got) {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if got := Printable([]byte(text), 128); got != want {
			t.Errorf("the bytes %q are shown as %q", text, got)
		}
	}
}
