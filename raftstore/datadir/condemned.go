package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CondemnedFile is there if nothing may be started on the directory any more. Its content is the reason, for
// people.
const CondemnedFile = "condemned.txt"

// condemnedReasonMax bounds the part of it that is shown.
const condemnedReasonMax = 4096

// CondemnedError is returned by Open, PlanForceSingle and ForceSingle for a data directory that must not be used any
// more, because its member found its state to be wrong (Dir.Condemn). Nothing was changed.
type CondemnedError struct {
	File   string // with the reason in it
	Reason string
}

// Error names the file and the reason.
func (e *CondemnedError) Error() string {
	return fmt.Sprintf("the data must not be used any more, says %s: %s", e.File, e.Reason)
}

// Condemn writes into the data directory that nothing may be started on it any more, and why, in one line. It
// is durable when Condemn returns. This process is not concerned: it is the caller's business to end it.
func (d *Dir) Condemn(reason string) error {
	return d.disk.Condemn(d.path, reason)
}

// Condemn is Dir.Condemn for a directory that need not be open.
func (d *Disk) Condemn(dir, reason string) error {
	return d.writeFile(filepath.Join(dir, CondemnedFile), []byte(reason+"\n"))
}

// condemned returns a *CondemnedError if the directory is condemned. A file that cannot be understood
// condemns as well: nobody else makes one.
func condemned(d *Disk, dir string) error {
	path := filepath.Join(dir, CondemnedFile)
	content, err := d.read(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	reason := strings.TrimSpace(string(content[:min(len(content), condemnedReasonMax)]))
	if reason == "" {
		reason = fmt.Sprintf("the file does not say why (%v)", err)
	}
	return &CondemnedError{File: path, Reason: reason}
}
