package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// escaper escapes what a terminal would obey instead of showing it: servers and other clients choose much of what the command
// line prints. Line breaks and tabs stay.
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

// oneLine escapes the line breaks and tabs of a text, which escaper leaves.
func oneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(text)
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
