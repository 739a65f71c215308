package main

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

// oneLine escapes the line breaks and tabs of a text, which escaper leaves, and the other bytes by which a tabwriter
// ends a cell or a line, or leaves a text as it is.
func oneLine(text string) string { return inOneLine.Replace(text) }

var inOneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\v", `\v`, "\f", `\f`, "\xff", `\xff`)

// printLine prints one line, whatever its texts hold.
func printLine(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(w, oneLine(fmt.Sprintf(format, args...)))
	return err
}

// printRow prints one row of a table, whatever its cells hold.
func printRow(table io.Writer, cells ...string) error {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = oneLine(cell)
	}
	_, err := fmt.Fprintln(table, strings.Join(line, "\t"))
	return err
}

// exact returns the writer behind an escaper, for data that has to come out as it is.
func exact(w io.Writer) io.Writer {
	if e, ok := w.(*escaper); ok {
		return e.w
	}
	return w
}

// fileOf returns the file that a writer ends in, nil if none.
func fileOf(w io.Writer) *os.File {
	file, _ := exact(w).(*os.File)
	return file
}
