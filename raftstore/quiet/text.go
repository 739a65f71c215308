package quiet

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// textMax is how many bytes of a text that others have chosen get into a line of a log.
const textMax = 128

// Cut is a text that a client has chosen, as it may be given to a logger, which quotes it where it has to: at
// most 128 bytes of it.
func Cut(text string) string {
	if len(text) > textMax {
		return text[:textMax] + "..."
	}
	return text
}

// Printable is a text that others have chosen as people are shown it: at most so many bytes of it, on one
// line, with nothing in it that a terminal might obey. No more is looked at than four times as much.
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
