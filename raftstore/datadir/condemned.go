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

// condemnedReasonMax bounds what is read of it.
const condemnedReasonMax = 4096

// CondemnedError says that a data directory must not be used any more, because the member that had it found
// its state to be wrong (Dir.Condemn). Open, PlanForceSingle and ForceSingle return it. Nothing was
// changed.
type CondemnedError struct {
	File   string // that says so
	Reason string
}

// Error names the file and the reason.
func (e *CondemnedError) Error() string {
	return fmt.Sprintf("the data must not be used any more, says %s: %s", e.File, e.Reason)
}

// Condemn writes into the data directory that nothing may be started on it any more, and why, in one line. It
// is durable when Condemn returns. This process is not concerned: it is the caller's business to end it.
func (d *Dir) Condemn(reason string) error {
	return d.disk.writeFile(filepath.Join(d.path, CondemnedFile), []byte(reason+"\n"))
}

// condemned returns a *CondemnedError if the directory is condemned. A file that cannot be understood
// condemns as well: nobody else makes one.
func condemned(dir string) error {
	path := filepath.Join(dir, CondemnedFile)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	content := make([]byte, condemnedReasonMax)
	n, err := f.Read(content)
	reason := strings.TrimSpace(string(content[:n]))
	if reason == "" {
		reason = fmt.Sprintf("the file does not say why (%v)", err)
	}
	return &CondemnedError{File: path, Reason: reason}
}
