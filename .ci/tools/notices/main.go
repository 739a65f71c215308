// Command notices prints the licences of everything that programs link: of each module, of Go itself, and of works that
// they embed.
//
//	notices PACKAGE...
//
// Each PACKAGE is a program of the module in the working directory.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// platforms lists the targets of the builds. The notices cover all of them, so they are the same everywhere.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

func main() {
	modules, err := linked(os.Args[1:])
	var made []byte
	if err == nil {
		var works []*module
		if works, err = embedded(os.Args[1:]); err == nil {
			made, err = notices(append(modules, works...))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
	_, _ = os.Stdout.Write(made)
}

// module is a linked module, or Go itself: its name and version, its directory, and those of its linked packages.
type module struct {
	path, name, dir string
	packages        []string
	licence         string // of an embedded work: the path of its licence
}

// linked lists the modules of programs by path, after Go itself.
func linked(programs []string) ([]*module, error) {
	const format = "-f={{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}\n{{end}}{{end}}"
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	modules := []*module{{path: "Go", name: "Go", dir: strings.TrimSpace(string(root))}}
	known := make(map[string]*module)
	for _, platform := range platforms {
		system, machine, _ := strings.Cut(platform, "/")
		list := exec.Command("go", append([]string{"list", "-deps", format}, programs...)...)
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine)
		list.Stderr = os.Stderr
		listed, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", platform, err)
		}
		for line := range strings.Lines(string(listed)) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			if len(fields) != 4 {
				continue // the empty line of a package of the standard library or of the program's own module
			}
			m := known[fields[0]]
			if m == nil {
				m = &module{path: fields[0], name: fields[0] + " " + fields[1], dir: fields[2]}
				known[m.path], modules = m, append(modules, m)
			}
			m.packages = append(m.packages, fields[3])
		}
	}
	slices.SortFunc(modules[1:], func(a, b *module) int { return cmp.Compare(a.path, b.path) })
	return modules, nil
}

// embedded lists the works whose licences programs embed, as WORK.LICENSE in a folder whose file SOURCES has a line
// "FILE WORK VERSION".
func embedded(programs []string) (works []*module, err error) {
	const format = "-f={{with .Module}}{{if .Main}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}\n{{end}}{{end}}{{end}}"
	listed, err := exec.Command("go", append([]string{"list", "-deps", format}, programs...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list of embedded files: %w", err)
	}
	for _, file := range strings.Fields(string(listed)) {
		work, is := strings.CutSuffix(filepath.Base(file), ".LICENSE")
		if !is {
			continue
		}
		sources, err := os.ReadFile(filepath.Join(filepath.Dir(file), "SOURCES"))
		if err != nil {
			return nil, err
		}
		found := regexp.MustCompile(`(?m)^\S+ +(` + regexp.QuoteMeta(work) + ` \S+)`).FindSubmatch(sources)
		if found == nil {
			return nil, fmt.Errorf("%s: SOURCES beside it does not name %s", file, work)
		}
		works = append(works,
			&module{path: work, name: string(found[1]), dir: filepath.Dir(file), licence: file})
	}
	slices.SortFunc(works, func(a, b *module) int { return cmp.Compare(a.path, b.path) })
	return slices.CompactFunc(works, func(a, b *module) bool { return a.licence == b.licence }), nil
}

// licenceFile matches the names of files with a licence or a notice.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([-_.].*)?$`)

// text is a file with a licence or a notice, by its name in its module.
type text struct{ name, content string }

// texts returns the licences and notices in a module's root, in the folders of its linked packages, and in those
// above them. Each text comes once.
func (m *module) texts() ([]text, error) {
	if m.licence != "" {
		content, err := os.ReadFile(m.licence)
		return []text{{filepath.Base(m.licence), plain(string(content))}}, err
	}
	folders := []string{m.dir}
	for _, folder := range m.packages {
		for ; len(folder) > len(m.dir); folder = filepath.Dir(folder) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	var found []text
	for _, folder := range slices.Compact(folders) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			name := filepath.Join(folder, entry.Name())
			if !entry.Type().IsRegular() || !licenceFile.MatchString(entry.Name()) || filepath.Ext(name) == ".go" {
				continue
			}
			content, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			t := text{filepath.ToSlash(strings.TrimPrefix(name, m.dir))[1:], plain(string(content))}
			if !slices.ContainsFunc(found, func(other text) bool { return other.content == t.content }) {
				found = append(found, t)
			}
		}
	}
	return found, nil
}

var lineEnd = regexp.MustCompile(`[ \t\f]*\r?\n`)

// plain returns a text with \n at the ends of all lines.
func plain(content string) string {
	return strings.Trim(lineEnd.ReplaceAllString(content+"\n", "\n"), "\n") + "\n"
}

// kinds maps the licences that may be linked to words of their texts. People have to look at any other one first.
var kinds = []struct{ name, words string }{
	{"MPL-2.0", "Mozilla Public License,? [Vv]ersion 2.0"},
	{"Apache-2.0", "Apache License,? Version 2.0"},
	{"BSD-3-Clause", "Neither the name .* nor the names of (its|their|the) contributors"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce"},
	{"MIT", "Permission is hereby granted, free of charge"},
}

// kindsOf returns the short names of the licences that a text contains or names.
func kindsOf(content string) []string {
	oneLine := strings.Join(strings.Fields(content), " ")
	var found []string
	for _, kind := range kinds {
		part := kind.name == "BSD-2-Clause" && slices.Contains(found, "BSD-3-Clause")
		if !part && regexp.MustCompile(kind.words).MatchString(oneLine) {
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
Those without a path are of npm, https://www.npmjs.com/package/WORK, and in the pages of the console.

`

// notices lists modules with the numbers of their texts, and then the texts. Modules may share one.
func notices(modules []*module) ([]byte, error) {
	var list, body bytes.Buffer
	rule := strings.Repeat("-", 80)
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
				fmt.Fprintf(&body, "\n%s\n[%d] %s of %s\n%s\n\n%s", rule, numbers[t.content], t.name, m.path,
					rule, t.content)
			}
			where = append(where, fmt.Sprintf("[%d]", numbers[t.content]))
			names = append(names, kindsOf(t.content)...)
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%s: no licence that this program knows; look at %s", m.name, m.dir)
		}
		slices.Sort(names)
		fmt.Fprintf(&list, "%s: %s, texts %s\n", m.name, strings.Join(slices.Compact(names), " and "),
			strings.Join(where, " "))
	}
	return slices.Concat([]byte(head), list.Bytes(), body.Bytes()), nil
}
