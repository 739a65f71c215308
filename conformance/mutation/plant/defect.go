package plant

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Defect is one defect: a text of a file that is replaced by another one.
type Defect struct {
	Name     string
	Breaks   string // in a sentence
	File     string // slash-separated, from the top of the repository
	Silence  bool   // the silence simulation has to find it, too
	Seeds    int    // within so many seeds conformance/sim has to find it; 0: it need not
	Mixture  string // count only seeds whose plan names this; "": all
	old, new string
}

// Read returns the defects of a folder, by name.
func Read(files fs.FS, folder string) ([]Defect, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var list []Defect
	for _, file := range names {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		d, err := parse(strings.TrimSuffix(path.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

var form = regexp.MustCompile(`(?s)^# ([^\n]+)\nfile: ([^\n]+)\n(also: silence\n)?` +
	`(?:seeds: (\d+)(?: of ([a-z ]+))?\n)?<<<<\n(.+)\n====\n(.*)\n>>>>\n$`)

func parse(name, text string) (Defect, error) {
	parts := form.FindStringSubmatch(text)
	if parts == nil {
		return Defect{}, fmt.Errorf("defect %s: the file has not the form of the others", name)
	}
	seeds, _ := strconv.Atoi(parts[4]) // digits, or nothing
	return Defect{Name: name, Breaks: parts[1], File: parts[2], Silence: parts[3] != "", Seeds: seeds,
		Mixture: parts[5], old: parts[6], new: parts[7]}, nil
}

// apply returns the defective text of the file that has this one.
func (d *Defect) apply(text string) (string, error) {
	if count := strings.Count(text, d.old); count != 1 {
		return "", fmt.Errorf("defect %s no longer applies: its old text is in %s %d times, not once", d.Name,
			d.File, count)
	}
	return strings.Replace(text, d.old, d.new, 1), nil
}
