//go:build !unix

package trace

import "os"

// File is a file that a trace is written to. Simulated histories run on Linux only.
type File struct{ *os.File }

// Create makes a file, or empties it.
func Create(name string) (*File, error) {
	file, err := os.Create(name)
	return &File{file}, err
}
