package serve

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// ForOthers are the permissions that nobody but the owner of a secret may have.
const ForOthers = 0o077

// warnOfModes tells of files with secrets that others than their owner can read or change. What is missing is
// told by those who need it.
func warnOfModes(logger *slog.Logger, s Settings) {
	for _, secret := range []struct {
		what string
		path File
	}{
		{"the token file", s.Auth.TokenFile},
		{"the password file of --initial-admin", s.Auth.AdminPasswordFile},
		{"the key of --tls-cert", s.TLS.Key}, {"the key of --peer-cert", s.Cluster.Key},
		{"the data directory", File(s.DataDir)},
	} {
		if secret.path == "" {
			continue
		}
		if info, err := os.Stat(string(secret.path)); err == nil && info.Mode().Perm()&ForOthers != 0 {
			logger.Warn(secret.what+
				" is open to others than its owner, who can then pass for any user: take the rights away",
				"path", string(secret.path), "mode", ModeText(info.Mode()), "want", ModeText(info.Mode()&^ForOthers))
		}
	}
	if s.DataDir == "" {
		return
	}
	if count, first := OpenToOthers(string(s.DataDir)); count > 0 {
		logger.Warn("files in the data directory are open to others than their owner: take the rights away",
			"files", count, "first", first)
	}
}

// ModeText writes permissions as chmod(1) takes them.
func ModeText(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }

// OpenToOthers counts what in a directory is open to others than its owner, and names the first of it. What
// cannot be looked at, or is gone meanwhile, is left to those who need it.
func OpenToOthers(directory string) (count int, first string) {
	_ = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && entry != nil && entry.IsDir():
			return fs.SkipDir
		case err != nil || path == directory:
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&ForOthers == 0 {
			return nil
		}
		if count++; count == 1 {
			first = path
		}
		return nil
	})
	return count, first
}
