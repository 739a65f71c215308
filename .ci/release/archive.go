package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file or a folder of an archive or an image.
type entry struct {
	name    string // with a slash at the end if it is a folder
	mode    int64
	owner   int // user and group
	content []byte
}

// licences are in every archive, package and image.
var licences = []string{"LICENSE", "THIRD-PARTY-NOTICES.txt"}

// entriesOf reads files; each gets the last part of its name, below a folder.
func entriesOf(folder string, mode int64, names ...string) ([]entry, error) {
	var entries []entry
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: folder + filepath.Base(name), mode: mode, content: content})
	}
	return entries, nil
}

// archives makes an archive of each program for each platform: the program and the licences, in no folder.
func (r *release) archives() error {
	for _, p := range r.platforms {
		for _, program := range programs {
			entries, err := entriesOf("", 0o755, r.binary(p, program))
			if err != nil {
				return err
			}
			texts, err := entriesOf("", 0o644, licences...)
			if err != nil {
				return err
			}
			pack, suffix := r.tarGzip, ".tar.gz"
			if p.system == "windows" {
				pack, suffix = r.zip, ".zip"
			}
			packed, err := pack(append(entries, texts...))
			if err != nil {
				return err
			}
			if err := os.WriteFile(r.named(program, p.String()+suffix), packed, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// named is the path of a file of the release.
func (r *release) named(program, rest string) string {
	return filepath.Join(r.out, program+"_"+r.version+"_"+rest)
}

// tar makes a tar archive. Its files have the time of the commit, and belong to the numbers of their entries.
func (r *release) tar(entries []entry) ([]byte, error) {
	var made bytes.Buffer
	w := tar.NewWriter(&made)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)),
			ModTime: r.time, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return made.Bytes(), err
}

func (r *release) tarGzip(entries []entry) ([]byte, error) {
	plain, err := r.tar(entries)
	if err != nil {
		return nil, err
	}
	return compressed(plain)
}

// compressed is content by gzip, without a name or a time.
func compressed(content []byte) ([]byte, error) {
	var made bytes.Buffer
	w, err := gzip.NewWriterLevel(&made, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(content); err == nil {
		err = w.Close()
	}
	return made.Bytes(), err
}

func (r *release) zip(entries []entry) ([]byte, error) {
	var made bytes.Buffer
	w := zip.NewWriter(&made)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.time.Truncate(2 * time.Second)}
		header.SetMode(os.FileMode(e.mode))
		file, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return made.Bytes(), err
}
