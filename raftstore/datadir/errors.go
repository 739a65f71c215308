package datadir

import (
	"errors"
	"fmt"

	"github.com/coordd/coordd/raftstore/files"
)

// ErrLocked is returned by Open and Check when another process holds the data directory.
var ErrLocked = files.ErrLocked

// ErrNotData is returned for a directory that coordd did not write. Nothing was changed.
var ErrNotData = errors.New("it is not a data directory")

// ErrHalfRestored is returned if the restore of a backup was cut short: the directory does not hold the backup. Nothing
// was changed. RestoreBackup can be called again, which begins anew.
var ErrHalfRestored = errors.New("a backup was being restored into it, and that did not come to its end")

// CorruptionError reports stored data that differs from the data written. Nothing was changed. Open and Check return
// it, and Handler.Failed gets it when damage shows up while running.
type CorruptionError struct {
	File   string // path of the damaged or missing file
	Index  uint64 // log entry concerned; 0 if the damage is not about one entry
	Reason string // what was found, for the operator
}

// Error names file and entry.
func (e *CorruptionError) Error() string {
	if e.Index == 0 {
		return fmt.Sprintf("corrupt data in %s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("corrupt data in %s at entry %d: %s", e.File, e.Index, e.Reason)
}

// FormatError reports a file written by a newer program. Nothing was changed.
type FormatError = files.FormatError

// Corrupt builds a CorruptionError.
func corrupt(file string, index uint64, format string, args ...any) error {
	return &CorruptionError{File: file, Index: index, Reason: fmt.Sprintf(format, args...)}
}

// corruptAt returns the damage of a file, if err is that, as damage that concerns an entry; 0 for none.
func corruptAt(err error, index uint64) error {
	if damage := (*files.DamageError)(nil); errors.As(err, &damage) {
		return corrupt(damage.File, index, "%s", damage.Reason)
	}
	return err
}
