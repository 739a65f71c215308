package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/coordd/coordd/internal/serve"
)

// passwordReader reads passwords from stdin, one a line. At a terminal it asks for each and shows nothing of
// it.
type passwordReader struct {
	program *program
	lines   *bufio.Reader
}

func (r *passwordReader) read(question string) (string, error) {
	if file, ok := r.program.stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(r.program.stderr, "%s: ", question)
		typed, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(r.program.stderr)
		if err == nil && len(typed) == 0 {
			err = errors.New("no password given")
		}
		return string(typed), err
	}
	if r.lines == nil {
		r.lines = bufio.NewReader(r.program.stdin)
	}
	password, err := serve.ReadPasswordLine(r.lines)
	if err != nil {
		return "", fmt.Errorf("%s, from stdin: %w", question, err)
	}
	return password, nil
}
