package main

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

//go:embed testdata/*.txt
var testdata embed.FS

// mutation is one defect.
type mutation struct {
	name     string
	breaks   string // in a sentence
	file     string // slash-separated, from the top of the repository
	silence  bool   // the silence simulation has to find it, too
	old, new string
}

// mutations returns all defects by name.
func mutations() ([]mutation, error) {
	files, err := fs.Glob(testdata, "testdata/*.txt")
	if err != nil {
		return nil, err
	}
	var list []mutation
	for _, file := range files {
		text, err := testdata.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(path.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

var form = regexp.MustCompile(`(?s)^# ([^\n]+)\nfile: ([^\n]+)\n(also: silence\n)?<<<<\n(.+)\n====\n(.*)\n>>>>\n$`)

func parse(name, text string) (mutation, error) {
	parts := form.FindStringSubmatch(text)
	if parts == nil {
		return mutation{}, fmt.Errorf("defect %s: the file has not the form of the others", name)
	}
	return mutation{name: name, breaks: parts[1], file: parts[2], silence: parts[3] != "", old: parts[4],
		new: parts[5]}, nil
}

// apply returns the defective text of the file that has this one.
func (m *mutation) apply(text string) (string, error) {
	if count := strings.Count(text, m.old); count != 1 {
		return "", fmt.Errorf("defect %s no longer applies: its old text is in %s %d times, not once", m.name,
			m.file, count)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}
