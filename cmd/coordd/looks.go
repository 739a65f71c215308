package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

// looks are those of a command that shows how things stand again and again.
type looks struct {
	every time.Duration
	times int
}

// declare adds the flags; every is the default of the first.
func (l *looks) declare(flags *pflag.FlagSet, every time.Duration) {
	flags.DurationVar(&l.every, "every", every, "how often to look")
	flags.IntVar(&l.times, "times", 0, "end after so many looks (default: never)")
}

// check is what is wrong with the flags.
func (l *looks) check(flags *pflag.FlagSet) error {
	switch {
	case l.every < 100*time.Millisecond || l.every > time.Hour:
		return exit.Usagef("flag --every: value %q is not allowed: want a time from 100ms to 1h", l.every)
	case flags.Changed("times") && l.times < 1:
		return exit.Usagef("flag --times: value %d is not allowed: want a number above 0", l.times)
	}
	return nil
}

// show prints what look finds, until ctx ends or it was often enough. At a terminal each look takes the place
// of the last.
func (l *looks) show(ctx context.Context, stdout io.Writer, out *outputFlag, look func() (inText, error)) error {
	inPlace := terminalOf(stdout) != nil && out.form == formTable
	for seen := 0; ; {
		begun := time.Now()
		shown, err := look()
		if err != nil {
			return err
		}
		if inPlace {
			fmt.Fprint(cmdline.Exact(stdout), "\x1b[H\x1b[2J")
		}
		if err := out.one(stdout, shown, shown.text); err != nil {
			return err
		}
		if seen++; seen == l.times {
			return nil
		}
		select {
		case <-time.After(l.every - time.Since(begun)):
		case <-ctx.Done():
			return nil
		}
	}
}

// inText is what can also be shown to people.
type inText interface{ text(w io.Writer) }

// terminalOf is the terminal that is written to, nil if it is none.
func terminalOf(w io.Writer) *os.File {
	file := cmdline.FileOf(w)
	if file == nil || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}
