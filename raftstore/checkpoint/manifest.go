package checkpoint

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/coordd/coordd/raftstore/files"
)

// ManifestName is the name of the manifest.
const ManifestName = "manifest"

// IsFile reports whether a name is one of this package's.
func IsFile(name string) bool {
	return strings.HasSuffix(name, suffix) || name == ManifestName || name == ManifestName+files.Suffix
}

// manifest lists the files of the checkpoint, oldest first, with a record of the caller.
type manifest struct {
	Format int             `json:"format"`
	Next   uint64          `json:"next"` // no file has this number, or a higher one
	Files  []FileInfo      `json:"files"`
	Record json.RawMessage `json:"record"`
}

func readManifest(o Options) (m manifest, err error) {
	path := filepath.Join(o.Dir, ManifestName)
	b, err := files.Read(o.FS, path)
	if err != nil {
		return m, err
	}
	if err := files.Unseal(b, &m); err != nil {
		return m, files.Damage(path, "%v", err)
	}
	if m.Format != Format {
		return m, &files.FormatError{File: path, Found: m.Format, Known: Format}
	}
	return m, nil
}

// unnamed returns the names in the directory that the manifest does not have.
func (m manifest) unnamed(o Options) ([]string, error) {
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, f := range m.Files {
		named[f.Name()] = true
	}
	var unnamed []string
	for _, name := range names {
		if IsFile(name) && !named[name] && name != ManifestName {
			unnamed = append(unnamed, name)
		}
	}
	return unnamed, nil
}
