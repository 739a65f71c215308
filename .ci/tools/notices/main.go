// Command notices writes the licences of everything that is linked into programs: of each module, and of Go
// itself.
//
//	notices [-check] FILE PACKAGE...
//
// Each PACKAGE is a program, in the module of the working directory. The modules are those of all platforms that
// it is built for, so the result is the same everywhere. With -check nothing is written: a FILE that differs
// ends the program with status 1.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// platforms are those that the program is built for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

func main() {
	check := flag.Bool("check", false, "compare instead of write")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: notices [-check] FILE PACKAGE...")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Args()[1:], *check); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(file string, programs []string, check bool) error {
	modules, err := linked(programs)
	if err != nil {
		return err
	}
	made, err := notices(modules)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, made, 0o644)
	}
	switch found, err := os.ReadFile(file); {
	case err != nil:
		return err
	case !bytes.Equal(found, made):
		return fmt.Errorf("%s is not what the modules of %s say: run make generate", file,
			strings.Join(programs, " and "))
	}
	return nil
}

// module is one that is linked into the program.
type module struct {
	Path, Version, Dir string
	folders            []string // of its packages that are linked
}

// goItself stands for the runtime and the standard library.
const goItself = "Go"

// linked lists the modules of programs, by path, with Go itself in front.
func linked(programs []string) ([]*module, error) {
	found := make(map[string]*module)
	for _, platform := range platforms {
		system, machine, _ := strings.Cut(platform, "/")
		list := []string{"list", "-deps", "-json=ImportPath,Dir,Module,Standard"}
		command := exec.Command("go", append(list, programs...)...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine)
		command.Stderr = os.Stderr
		listed, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", platform, err)
		}
		if err := collect(found, listed); err != nil {
			return nil, fmt.Errorf("go list for %s: %w", platform, err)
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	modules := []*module{{Path: goItself, Dir: strings.TrimSpace(string(root))}}
	var paths []string
	for p := range found {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		modules = append(modules, found[p])
	}
	return modules, nil
}

// collect adds the modules of the packages that `go list` has told of.
func collect(found map[string]*module, listed []byte) error {
	for decoder := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct {
			ImportPath, Dir string
			Standard        bool
			Module          *struct {
				Path, Version, Dir string
				Main               bool
				Replace            *struct{ Path, Version string }
			}
		}
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case p.Standard || p.Module != nil && p.Module.Main:
			continue
		case p.Module == nil || p.Module.Replace != nil || p.Module.Dir == "":
			return fmt.Errorf("%s: no module with a version in the module cache", p.ImportPath)
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &module{Path: p.Module.Path, Version: p.Module.Version, Dir: p.Module.Dir}
			found[m.Path] = m
		}
		relative, err := filepath.Rel(m.Dir, p.Dir)
		if err != nil {
			return err
		}
		m.folders = append(m.folders, filepath.ToSlash(relative))
	}
}

// licenceFile is how a file with a licence or a notice is called.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([-_.].*)?$`)

// text is a file with a licence or a notice.
type text struct {
	name    string // of the file in its module
	content string
}

// texts returns the licences and notices of a module: those at its root, and in the folders of the packages
// that are linked and above these. Each comes once.
func (m *module) texts() ([]text, error) {
	folders := []string{"."}
	for _, folder := range m.folders {
		for ; folder != "."; folder = path.Dir(folder) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	var found []text
	for _, folder := range slices.Compact(folders) {
		entries, err := os.ReadDir(filepath.Join(m.Dir, filepath.FromSlash(folder)))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !licenceFile.MatchString(entry.Name()) ||
				strings.HasSuffix(entry.Name(), ".go") {
				continue
			}
			content, err := os.ReadFile(filepath.Join(m.Dir, filepath.FromSlash(folder), entry.Name()))
			if err != nil {
				return nil, err
			}
			t := text{path.Join(folder, entry.Name()), plain(content)}
			if !slices.ContainsFunc(found, func(other text) bool { return other.content == t.content }) {
				found = append(found, t)
			}
		}
	}
	if !slices.ContainsFunc(found, func(t text) bool { return len(kindsOf(t.content)) > 0 }) {
		return nil, fmt.Errorf("%s %s: no licence that this program knows; look at %s", m.Path, m.Version,
			m.Dir)
	}
	return found, nil
}

// plain is a text with lines that end in the same way everywhere.
func plain(content []byte) string {
	lines := strings.Split(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

// kinds are the licences that may be linked, each with words of its text. Another one is for people to look
// at first.
var kinds = []struct {
	name  string
	words *regexp.Regexp
}{
	{"MPL-2.0", regexp.MustCompile("Mozilla Public License,? [Vv]ersion 2.0")},
	{"Apache-2.0", regexp.MustCompile("Apache License,? Version 2.0")},
	{"BSD-3-Clause", regexp.MustCompile("Neither the name .* nor the names of (its|their|the) contributors")},
	{"BSD-2-Clause", regexp.MustCompile("Redistributions in binary form must reproduce")},
	{"MIT", regexp.MustCompile("Permission is hereby granted, free of charge")},
}

// kindsOf are the short names of the licences that a text is, or says that it is under.
func kindsOf(content string) []string {
	oneLine := strings.Join(strings.Fields(content), " ")
	var found []string
	for _, kind := range kinds {
		if kind.words.MatchString(oneLine) &&
			!(kind.name == "BSD-2-Clause" && slices.Contains(found, "BSD-3-Clause")) {
			found = append(found, kind.name)
		}
	}
	return found
}

const head = `Third-party notices of coordd
=============================

coordd is licensed under the Apache License 2.0. The program contains the works listed here, each under its own
licence. This file is made by "make generate", and "coordd licenses" prints it.

The source of each module is at https://pkg.go.dev/MODULE@VERSION, and the Go module proxy has it as it was built:
https://proxy.golang.org/MODULE/@v/VERSION.zip. None was changed. That of Go itself is at https://go.dev/dl/.

`

// notices puts the texts together. A text that several modules share comes once.
func notices(modules []*module) ([]byte, error) {
	var list, body bytes.Buffer
	numbers := make(map[string]int)
	for _, m := range modules {
		texts, err := m.texts()
		if err != nil {
			return nil, err
		}
		var names, where []string
		for _, t := range texts {
			if numbers[t.content] == 0 {
				numbers[t.content] = len(numbers) + 1
				fmt.Fprintf(&body, "\n%s\n[%d] %s of %s\n%s\n\n%s", rule, numbers[t.content], t.name, m.Path,
					rule, t.content)
			}
			where = append(where, fmt.Sprintf("[%d]", numbers[t.content]))
			names = append(names, kindsOf(t.content)...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		fmt.Fprintf(&list, "%s: %s, texts %s\n", strings.TrimSpace(m.Path+" "+m.Version),
			strings.Join(names, " and "), strings.Join(where, " "))
	}
	return slices.Concat([]byte(head), list.Bytes(), body.Bytes()), nil
}

var rule = strings.Repeat("-", 80)
