package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// passwordFileBytesMax bounds a password file. A password has at most 1024 bytes.
const passwordFileBytesMax = 4 << 10

// readPasswordFile returns the first line of a file. Its errors name the file and nothing of its content.
func readPasswordFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("password file: %w", err)
	}
	defer file.Close()
	password, err := readLine(bufio.NewReader(io.LimitReader(file, passwordFileBytesMax)))
	if err != nil {
		return "", fmt.Errorf("password file %s: %w", path, err)
	}
	return password, nil
}

// readLine returns a line without its end. An empty one is an error.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", errors.New("no password in its first line")
	}
	return line, nil
}

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
	password, err := readLine(r.lines)
	if err != nil {
		return "", fmt.Errorf("%s, from stdin: %w", question, err)
	}
	return password, nil
}
