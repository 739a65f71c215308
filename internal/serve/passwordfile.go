package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// passwordFileBytesMax bounds a password file. A password has at most 1024 bytes.
const passwordFileBytesMax = 4 << 10

// ReadPasswordFile returns the first line of a file. Its errors name the file and nothing of its content.
func ReadPasswordFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("password file: %w", err)
	}
	defer file.Close()
	password, err := ReadPasswordLine(bufio.NewReader(io.LimitReader(file, passwordFileBytesMax)))
	if err != nil {
		return "", fmt.Errorf("password file %s: %w", path, err)
	}
	return password, nil
}

// ReadPasswordLine returns a line without its end. An empty one is an error.
func ReadPasswordLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", errors.New("no password in its first line")
	}
	return line, nil
}
