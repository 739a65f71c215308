package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/internal/tty"
)

// The forms of output.
const (
	formTable = "table"
	formJSON  = "json"
	formLines = "jsonl"
)

// outputFlag is the form of a command's output. Tables are for people and may change; docs/commands.md
// describes the rest.
type outputFlag struct{ form string }

func (o *outputFlag) declareOutput(command *cobra.Command) {
	command.Flags().StringVarP(&o.form, "output", "o", formTable,
		"form of the output: table, json, or jsonl, which is a line of json for each thing")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]string{formTable, formJSON, formLines}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *outputFlag) check() error {
	switch o.form {
	case formTable, formJSON, formLines:
		return nil
	}
	return exit.Usagef("flag --output: value %q is not allowed: want table, json or jsonl", o.form)
}

// terminalOf is the terminal that is written to, nil if it is none.
func terminalOf(w io.Writer) *os.File { return tty.Of(cmdline.FileOf(w)) }

// progressOf returns the line that shows the progress of a command at a terminal.
func progressOf(env *cmdline.Env) *tty.Progress { return tty.NewProgress(cmdline.FileOf(env.Stderr)) }

// rowsAtOnce is after how many rows a table is shown as far as it is known.
const rowsAtOnce = 256

// listing prints one thing after the other.
type listing struct {
	w       io.Writer
	form    string
	headers []string
	table   *tabwriter.Writer
	rows    int
}

func (o *outputFlag) list(w io.Writer, headers ...string) *listing {
	return &listing{w: w, form: o.form, headers: headers, table: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// add prints a thing: as value, or in a table as cells.
func (l *listing) add(value any, cells ...string) error {
	l.rows++
	switch l.form {
	case formTable:
		if l.rows == 1 {
			if err := cmdline.PrintRow(l.table, l.headers...); err != nil {
				return err
			}
		}
		if err := cmdline.PrintRow(l.table, cells...); err != nil || l.rows%rowsAtOnce != 0 {
			return err
		}
		return l.table.Flush()
	case formJSON:
		start := ",\n"
		if l.rows == 1 {
			start = "[\n"
		}
		if _, err := io.WriteString(l.w, start); err != nil {
			return err
		}
		text, err := jsonText(value, "")
		if err != nil {
			return err
		}
		_, err = l.w.Write(bytes.TrimSuffix(text, []byte("\n")))
		return err
	default:
		return writeJSON(l.w, value, "")
	}
}

// end is called behind the last thing.
func (l *listing) end() error {
	switch {
	case l.form == formJSON && l.rows == 0:
		_, err := io.WriteString(l.w, "[]\n")
		return err
	case l.form == formJSON:
		_, err := io.WriteString(l.w, "\n]\n")
		return err
	}
	return l.table.Flush()
}

// one prints a single thing: as value, or for people as text does it.
func (o *outputFlag) one(w io.Writer, value any, text func(w io.Writer)) error {
	switch o.form {
	case formTable:
		text(w)
		return nil
	case formJSON:
		return writeJSON(w, value, "  ")
	default:
		return writeJSON(w, value, "")
	}
}

func writeJSON(w io.Writer, value any, indent string) error {
	text, err := jsonText(value, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// jsonText is a value as json that a terminal shows and does not obey: what clients choose may hold anything.
func jsonText(value any, indent string) ([]byte, error) {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return printable(plain.Bytes(), func(w *bytes.Buffer, r rune) {
		if r > 0xffff {
			fmt.Fprintf(w, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
			return
		}
		fmt.Fprintf(w, `\u%04x`, r)
	}), nil
}

// printable escapes everything in a text that cannot be printed, but for line breaks. All of that is within
// quotes.
func printable(text []byte, escape func(*bytes.Buffer, rune)) []byte {
	var shown bytes.Buffer
	for _, r := range string(text) {
		if r == '\n' || strconv.IsPrint(r) {
			shown.WriteRune(r)
		} else {
			escape(&shown, r)
		}
	}
	return shown.Bytes()
}

// bytesShown is data of clients: as text where it is one, in base 64 where it is not.
type bytesShown struct {
	Data   *string `json:"data,omitempty"`
	Base64 *string `json:"data_base64,omitempty"`
}

func showBytes(data []byte) bytesShown {
	if text := string(data); utf8.ValidString(text) {
		return bytesShown{Data: &text}
	}
	text := base64.StdEncoding.EncodeToString(data)
	return bytesShown{Base64: &text}
}

// wholeRunes leaves out the rune at the end of a text that was cut within it.
func wholeRunes(data []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(data); cut++ {
		if end := data[len(data)-cut:]; utf8.RuneStart(end[0]) && !utf8.FullRune(end) {
			return data[:len(data)-cut]
		}
	}
	return data
}

// dataCellMost is how much of data a line of text has room for.
const dataCellMost = 60

// dataText is data for people.
func dataText(data []byte) string {
	if len(data) > dataCellMost {
		return fmt.Sprintf("%q... (%s)", data[:dataCellMost], counted(len(data), "byte"))
	}
	return fmt.Sprintf("%q", data)
}

// timeShown is a server's time of day, nil if it is not known.
func timeShown(millis uint64) *string {
	if millis == 0 || millis > math.MaxInt64 {
		return nil
	}
	text := time.UnixMilli(int64(millis)).UTC().Format(time.RFC3339)
	return &text
}

// dayText is the same for people.
func dayText(millis uint64) string {
	if shown := timeShown(millis); shown != nil {
		return *shown
	}
	return "unknown"
}

// waitShown is the timeout of a wait in milliseconds, nil for ever.
func waitShown(millis uint64) *uint64 {
	if millis == math.MaxUint64 {
		return nil
	}
	return &millis
}

func millisText(millis uint64) string {
	return serve.DurationText(time.Duration(min(millis, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond)
}

// counted is a number of things in words, such as "1 argument".
func counted[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// shows prints one of many things that come with time.
func showNext(env *cmdline.Env, out *outputFlag, value any, line string) (err error) {
	switch out.form {
	case formTable:
		_, err = fmt.Fprintln(env.Stdout, line)
	default:
		err = writeJSON(env.Stdout, value, "")
	}
	return err
}
