package quiet

import (
	"strings"
	"unicode"
)

// textMax is how many bytes of a text that others have chosen get into a line of a log.
const textMax = 128

// Cut is a text that a client has chosen, as it may be given to a logger, which quotes it where it has to: at most 128
// bytes of it.
func Cut(text string) string { return cutTo(text, textMax) }

func cutTo(text string, most int) string {
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// Printable is a text of others as it may stand in a sentence: at most so many bytes, without what a terminal would act
// upon.
func Printable(text string, most int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, cutTo(text, most))
}
