// Package tty draws on a terminal, and reads single keys from it.
package tty

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/term"
)

// Screen is a terminal whose keys come one by one and are not shown. Its methods are for one goroutine.
type Screen struct {
	in, out *os.File
	before  *term.State // of in; nil: there are no keys
	keys    chan byte
	signals chan os.Signal
}

// Keys that are not letters.
const (
	Interrupt = 0x03
	Suspend   = 0x1a
	Enter     = '\r'
	Escape    = 0x1b
	Delete    = 0x7f
	Backspace = 0x08
	// None is returned by Key when the picture is to be drawn anew.
	None = 0
)

// Of returns the file if it is a terminal, otherwise nil.
func Of(file *os.File) *os.File {
	if file == nil || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// Open begins to draw on out, which is a terminal. Keys come from in if it is one. Close has to be deferred at once, so
// that the terminal is restored whatever happens.
func Open(in, out *os.File) *Screen {
	s := &Screen{in: Of(in), out: out, keys: make(chan byte), signals: make(chan os.Signal, 8)}
	signal.Notify(s.signals, watched...)
	s.raw()
	fmt.Fprint(out, "\x1b[2J")
	if s.before != nil {
		go s.read() // until the program ends: a read from a terminal cannot be ended
	}
	return s
}

func (s *Screen) read() {
	var key [1]byte
	for {
		if n, err := s.in.Read(key[:]); err != nil {
			close(s.keys)
			return
		} else if n > 0 {
			s.keys <- key[0]
		}
	}
}

// raw takes the keys, hides the cursor, and cuts lines that are too long.
func (s *Screen) raw() {
	if s.in != nil {
		if before, err := term.MakeRaw(int(s.in.Fd())); err == nil && s.before == nil {
			s.before = before
		}
	}
	fmt.Fprint(s.out, "\x1b[?25l\x1b[?7l")
}

func (s *Screen) restore() {
	fmt.Fprint(s.out, "\x1b[?7h\x1b[?25h")
	if s.before != nil {
		_ = term.Restore(int(s.in.Fd()), s.before)
	}
}

// Close leaves the last picture, and the terminal as it was.
func (s *Screen) Close() {
	signal.Stop(s.signals)
	_, height := s.Size()
	fmt.Fprintf(s.out, "\x1b[%d;1H\r\n", height)
	s.restore()
}

// Size returns the width and the height of the terminal.
func (s *Screen) Size() (columns, lines int) { return Size(s.out) }

// Size returns the width and the height of a terminal.
func Size(out *os.File) (columns, lines int) {
	columns, lines, err := term.GetSize(int(out.Fd()))
	if err != nil || columns == 0 || lines == 0 {
		return 80, 24
	}
	return columns, lines
}

// Draw shows lines in place of what was shown before. They must hold nothing that a terminal obeys.
func (s *Screen) Draw(lines []string) {
	_, height := s.Size()
	var picture strings.Builder
	picture.WriteString("\x1b[H")
	for i, line := range lines[:min(len(lines), height)] {
		if i > 0 {
			picture.WriteString("\r\n")
		}
		picture.WriteString(line + "\x1b[K")
	}
	picture.WriteString("\x1b[J")
	fmt.Fprint(s.out, picture.String())
}

// Key waits for a key, up to a time, or for a reason to draw anew: then it returns None. It suspends the program where
// that is asked for.
func (s *Screen) Key(ctx context.Context, wait time.Duration) byte {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case key, open := <-s.keys:
		switch {
		case !open:
			s.keys = nil
		case key == Suspend:
			s.suspend()
		default:
			return key
		}
	case sig := <-s.signals:
		switch sig {
		case stopSignal:
			s.suspend()
		case continueSignal: // it was stopped, perhaps by a signal that cannot be caught
			s.raw()
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return None
}

func (s *Screen) suspend() {
	s.restore()
	for stopped := stop(); stopped; { // it takes effect a moment later
		stopped = <-s.signals != continueSignal
	}
	s.raw()
}
