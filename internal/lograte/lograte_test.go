package lograte

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestLimiter logs a repeated event ever more rarely, with the number of suppressed ones, and anew after a pause.
func TestLimiter(t *testing.T) {
	var l Limiter
	now := time.Unix(1, 0)
	told, events := 0, 0
	for range 3600 {
		if ok, suppressed := l.Allow(now); ok {
			told++
			events += suppressed + 1
		}
		now = now.Add(time.Second)
	}
	if told < 10 || told > 25 {
		t.Errorf("logged %d times in an hour", told)
	}
	if ok, suppressed := l.Allow(now.Add(2 * MaxPause)); !ok || events+suppressed != 3600 {
		t.Errorf("logged %v, %d of 3600 events counted", ok, events+suppressed)
	}
	if ok, _ := l.Allow(now.Add(2*MaxPause + MinPause)); !ok {
		t.Error("the pause is still long after a long silence")
	}
}

// TestState logs a state that flaps ever more rarely, its last value nevertheless, and one that lasts once.
func TestState(t *testing.T) {
	var s State
	now := time.Unix(1, 0)
	if ok, _ := s.Allow("", now); ok {
		t.Error("that nothing is the matter is told")
	}
	told, hid := 0, 0
	for n := range 1000 {
		if ok, suppressed := s.Allow([]string{"up", "down"}[n%2], now); ok {
			told++
			hid += suppressed
		}
		now = now.Add(time.Second)
	}
	if told < 5 || told > 15 || told+hid > 1000 {
		t.Errorf("told %d of 1000 changes, %d were not", told, hid)
	}
	s.SetLogged("down")
	now = now.Add(MaxPause)
	if ok, _ := s.Allow("down", now); ok {
		t.Error("told again")
	}
	if ok, _ := s.Allow("up", now); !ok || s.Logged() != "up" {
		t.Errorf("in the end %q is told", s.Logged())
	}
}

// TestByKey has a client that makes up keys: it fills neither the log nor the memory.
func TestByKey(t *testing.T) {
	var k ByKey
	now := time.Unix(1, 0)
	told := 0
	for n := range 100_000 {
		if ok, _ := k.Allow(fmt.Sprint(n), now); ok {
			told++
		}
		now = now.Add(time.Millisecond)
	}
	if told > maxKeys+10 || len(k.limiters) > maxKeys {
		t.Errorf("told %d times, %d keys are kept", told, len(k.limiters))
	}
	now = now.Add(2 * MaxPause)
	k.Allow("another", now)
	if ok, suppressed := k.Allow("another", now.Add(MinPause)); !ok || suppressed != 0 || len(k.limiters) > 1 {
		t.Errorf("a key after a long silence has no limiter of its own: %v, %d, %d keys", ok, suppressed,
			len(k.limiters))
	}
}

// TestSteadyByKey has a line a second of each key, with a count of the others, and forgets keys that are over.
func TestSteadyByKey(t *testing.T) {
	k := ByKey{Longest: time.Second}
	now := time.Unix(1, 0)
	lines, events := 0, 0
	for range 6000 {
		if ok, suppressed := k.Allow("a", now); ok {
			lines++
			events += 1 + suppressed
		}
		now = now.Add(10 * time.Millisecond)
	}
	if lines != 60 || events > 6000 || events < 5900 {
		t.Errorf("%d lines of a minute stand for %d of 6000 events", lines, events)
	}
	for n := range 10 * maxKeys {
		if ok, _ := k.Allow(fmt.Sprint(n), now.Add(time.Duration(n)*time.Second/2)); !ok {
			t.Fatalf("key %d has no line", n)
		}
	}
}

// TestCut: text from a client cannot fill a line, nor begin another one, in either format of the log.
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

// TestPrintable cuts text from others for people.
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
