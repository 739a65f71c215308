package files

import "fmt"

// DamageError reports that a file or stream is not as it was written. Nothing was changed.
type DamageError struct{ File, Reason string }

// Error names the file.
func (e *DamageError) Error() string { return e.File + ": " + e.Reason }

// Damage returns a *DamageError.
func Damage(file, format string, args ...any) error {
	return &DamageError{file, fmt.Sprintf(format, args...)}
}

// FormatError reports that a file or stream was written by a newer program. Nothing was changed.
type FormatError struct {
	File  string
	Found int // version in the file
	Known int // highest version this program reads
}

// Error names both formats and the remedy: a newer program.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format %d, this program reads up to %d: use the version that wrote it or a later one",
		e.File, e.Found, e.Known)
}
