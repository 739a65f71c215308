package lograte

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTextBytes bounds a text from a client in a log line.
const maxTextBytes = 128

// Cut returns at most 128 bytes of a text from a client, for a logger, which quotes it where necessary.
func Cut(text string) string {
	if len(text) > maxTextBytes {
		return text[:maxTextBytes] + "..."
	}
	return text
}

// Printable returns at most so many bytes of a text from others, for people: on one line, without anything that a
// terminal might obey. It reads at most four times as many bytes.
func Printable[T ~string | ~[]byte](text T, most int) string {
	var b strings.Builder
	for _, r := range string(text[:min(len(text), 4*most)]) {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
