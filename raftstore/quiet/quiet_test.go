package quiet

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
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
		t.Errorf("a kind after a long silence has no pace of its own: %v, %d, %d kinds", ok, hidden, len(k.paces))
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
	if got := Printable("a\x1b[2J\nb", 6); got != "a?[2J?..." {
		t.Errorf("printable: %q", got)
	}
}
