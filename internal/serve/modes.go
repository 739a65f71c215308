package serve

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// Excess returns the permissions of a secret that have to be taken away: those of others than its owner, but not to
// read a file that root lends to a group of this process.
func Excess(info fs.FileInfo) fs.FileMode {
	excess := info.Mode().Perm() & 0o077
	if excess == 0o040 && lent(info) {
		return 0
	}
	return excess
}

// secrets describe the files with secrets, by the names of their settings.
var secrets = map[string]string{"token-file": "the token file", "tls-key": "the key of --tls-cert",
	"peer-key": "the key of --peer-cert", "initial-admin-password-file": "the password file of --initial-admin"}

// EachSecret calls do for each file with a secret.
func EachSecret(s Settings, do func(name, path string)) {
	Each(s, func(name string, file File) {
		if secrets[name] != "" {
			do(name, string(file))
		}
	})
}

// warnOfModes warns of files with secrets that others than their owner can read or change. A missing file is reported
// by its reader.
func warnOfModes(logger *slog.Logger, s Settings) {
	warn := func(what, path string) {
		if info, err := os.Stat(path); err == nil && Excess(info) != 0 {
			logger.Warn(what+" is open to others than its owner, who can then pass for any user: take the rights away",
				"path", path, "mode", ModeText(info.Mode()), "want", ModeText(info.Mode()&^Excess(info)))
		}
	}
	EachSecret(s, func(name, path string) { warn(secrets[name], path) })
	if s.DataDir == "" {
		return
	}
	warn("the data directory", string(s.DataDir))
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
		if err != nil || info.Mode()&fs.ModeSymlink != 0 || Excess(info) == 0 {
			return nil
		}
		if count++; count == 1 {
			first = path
		}
		return nil
	})
	return count, first
}
