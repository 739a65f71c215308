package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/coordd/coordd/internal/serve"
)

// readPassword reads a password from a file, or, where none is named, from a line of stdin. At a terminal it asks for
// it and shows nothing of it.
func (p *program) readPassword(path, question string) (string, error) {
	if path != "" {
		return serve.ReadPasswordFile(path)
	}
	if file, ok := p.stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(p.stderr, "%s: ", question)
		typed, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(p.stderr)
		if err == nil && len(typed) == 0 {
			err = errors.New("no password given")
		}
		return string(typed), err
	}
	if p.passwords == nil {
		p.passwords = bufio.NewReader(p.stdin)
	}
	password, err := serve.ReadPasswordLine(p.passwords)
	if err != nil {
		return "", fmt.Errorf("%s, from stdin: %w", question, err)
	}
	return password, nil
}
