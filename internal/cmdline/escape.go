package cmdline

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// escaper escapes what a terminal would obey instead of showing it: servers and other clients choose much of what the
// command line prints. Line breaks and tabs stay.
type escaper struct {
	w    io.Writer
	rest []byte // the beginning of a rune whose other bytes have not come yet
}

// Escaped returns a writer to w that escapes.
func Escaped(w io.Writer) io.Writer { return &escaper{w: w} }

// Write implements io.Writer.
func (e *escaper) Write(text []byte) (int, error) {
	var shown bytes.Buffer
	left := append(e.rest, text...)
	for len(left) > 0 && utf8.FullRune(left) {
		r, size := utf8.DecodeRune(left)
		if r == '\n' || r == '\t' || strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			shown.Write(left[:size])
		} else {
			shown.WriteString(escapedRune(left[:size]))
		}
		left = left[size:]
	}
	e.rest = bytes.Clone(left)
	if _, err := e.w.Write(shown.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escapedRune returns the escape of a rune, or of one byte that belongs to none, as Go's strings have it.
func escapedRune(r []byte) string { return strings.Trim(strconv.Quote(string(r)), `"`) }

// Printable escapes everything in a text that is not to be printed as it is, for a writer that does not escape.
func Printable(text string) string {
	var shown bytes.Buffer
	_, _ = Escaped(&shown).Write([]byte(OneLine(text)))
	return shown.String()
}

// OneLine escapes the line breaks and tabs of a text, which escaper leaves, and the other bytes by which a tabwriter
// ends a cell or a line, or leaves a text as it is.
func OneLine(text string) string { return inOneLine.Replace(text) }

var inOneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\v", `\v`, "\f", `\f`, "\xff", `\xff`)

// PrintLine prints one line, whatever its texts hold.
func PrintLine(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(w, OneLine(fmt.Sprintf(format, args...)))
	return err
}

// PrintRow prints one row of a table, whatever its cells hold.
func PrintRow(table io.Writer, cells ...string) error {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = OneLine(cell)
	}
	_, err := fmt.Fprintln(table, strings.Join(line, "\t"))
	return err
}

// Exact returns the writer that an escaper writes to, for data that has to come out as it is.
func Exact(w io.Writer) io.Writer {
	if e, ok := w.(*escaper); ok {
		return e.w
	}
	return w
}

// FileOf returns the file that a writer ends in, or nil.
func FileOf(w io.Writer) *os.File {
	file, _ := Exact(w).(*os.File)
	return file
}
