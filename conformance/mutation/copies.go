package main

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
)

// copies is where copySources puts files, below the folder work.
const copies = "copies"

// copySources copies the module's files in some folders, and instead of those that replace lists the files
// there: the cover tool of go knows no overlays.
func copySources(root, work string, folders []string, replace map[string]string) error {
	top, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	replace = maps.Clone(replace)
	for _, folder := range folders {
		files, _ := filepath.Glob(filepath.Join(top, folder, "*.go"))
		for _, file := range files {
			replace[file] = cmp.Or(replace[file], file)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		replace[filepath.Join(top, file)] = filepath.Join(top, file)
	}
	for original, file := range replace {
		below, err := filepath.Rel(top, original)
		to := filepath.Join(work, copies, below)
		text, unread := os.ReadFile(file)
		if err = errors.Join(err, unread, os.MkdirAll(filepath.Dir(to), 0o700)); err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
