package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/serve"
)

// readPassword reads a password from a file, or, where none is named, from a line of stdin. At a terminal it asks for
// it and shows nothing of it.
func readPassword(env *cmdline.Env, path, question string) (string, error) {
	if path != "" {
		return serve.ReadPasswordFile(path)
	}
	if file, ok := env.Stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(env.Stderr, "%s: ", question)
		typed, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(env.Stderr)
		if err == nil && len(typed) == 0 {
			err = errors.New("no password given")
		}
		return string(typed), err
	}
	password, err := serve.ReadPasswordLine(env.StdinLines())
	if err != nil {
		return "", fmt.Errorf("%s, from stdin: %w", question, err)
	}
	return password, nil
}
