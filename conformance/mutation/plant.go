package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chooser is the variable that says which defect is in force, in each package that has any, and variable the
// one of the environment that it is read from. Where that is empty, the code does what it does otherwise.
const (
	chooser  = "plantedDefect"
	variable = "PLANTED_DEFECT"
)

// plantAll writes the files of the repository that have defects, with all of them, into the folder work, and
// returns the name of a list there that makes the compiler take these files in place of the others.
func plantAll(root, work string, list []mutation) (string, error) {
	byFile := make(map[string][]mutation)
	for _, m := range list {
		byFile[m.file] = append(byFile[m.file], m)
	}
	replace := make(map[string]string)
	var problems []error
	put := func(original, text string) {
		if replace[original] == "" {
			replace[original] = filepath.Join(work, fmt.Sprintf("%d.go", len(replace)))
		}
		problems = append(problems, os.WriteFile(replace[original], []byte(text), 0o600))
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		original, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(original)
		if err != nil {
			return "", err
		}
		planted, name, err := plant(string(text), byFile[file])
		problems = append(problems, err)
		put(original, planted)
		put(filepath.Join(filepath.Dir(original), "planted_defect.go"), fmt.Sprintf(
			"package %s\n\nimport \"os\"\n\nvar %s = os.Getenv(%q)\n", name, chooser, variable))
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(work, "overlay.json")
	return file, errors.Join(append(problems, os.WriteFile(file, overlay, 0o600))...)
}

// copies is where copySources puts files, below the folder work.
const copies = "copies"

// copySources copies the module's files in some folders, and in place of those with defects, which the
// overlay lists, those: go's cover tool knows no overlays.
func copySources(root, work string, folders []string, overlay string) error {
	var list struct{ Replace map[string]string }
	text, err := os.ReadFile(overlay)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	top, notFound := filepath.Abs(root)
	if err = errors.Join(err, notFound); err != nil {
		return err
	}
	for _, folder := range folders {
		files, _ := filepath.Glob(filepath.Join(top, folder, "*.go"))
		for _, file := range files {
			list.Replace[file] = cmp.Or(list.Replace[file], file)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		list.Replace[filepath.Join(top, file)] = filepath.Join(top, file)
	}
	for original, file := range list.Replace {
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

// plant returns the text of a file with all of its defects, and the name of its package. For each defect
// there is a defective copy of the function that it is in, which the function calls instead of doing anything
// itself if the defect is in force. What the compiler says of a copy names the defect as its file.
func plant(text string, defects []mutation) (planted, name string, err error) {
	original, err := read(text)
	if err != nil {
		return "", "", err
	}
	type insertion struct {
		at   int
		text string
	}
	var calls []insertion
	var copies strings.Builder
	var problems []error
	for _, m := range defects {
		text, err := m.apply(text)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		defective, err := read(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("defect %s: %w", m.name, err))
			continue
		}
		was, is := original.changed(defective)
		if was == nil {
			problems = append(problems, fmt.Errorf("defect %s is not in the body of one function", m.name))
			continue
		}
		copied := is.Name.Name + "_" + m.name
		call, err := callOf(was, copied)
		if err != nil {
			problems = append(problems, fmt.Errorf("defect %s: %w", m.name, err))
			continue
		}
		calls = append(calls, insertion{original.offset(was.Body.Lbrace) + 1,
			fmt.Sprintf(" if %s == %q { %s };", chooser, m.name, call)})
		fmt.Fprintf(&copies, "\n//line %s:1\n%s%s%s\n", m.name, defective.between(is.Pos(), is.Name.Pos()),
			copied, defective.between(is.Name.End(), is.End()))
	}
	slices.SortFunc(calls, func(a, b insertion) int { return b.at - a.at })
	for _, call := range calls { // the last one first, so that the other places stay where they are
		text = text[:call.at] + call.text + text[call.at:]
	}
	return text + copies.String(), original.file.Name.Name, errors.Join(problems...)
}

// source is the text of a file and its parts.
type source struct {
	text string
	file *ast.File
}

func read(text string) (*source, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	return &source{text, file}, err
}

func (s *source) offset(at token.Pos) int { return int(at - s.file.FileStart) }

func (s *source) between(from, to token.Pos) string { return s.text[s.offset(from):s.offset(to)] }

// changed returns the function in which a file and its defective text differ, as it is in both; nil if they
// differ in anything but the body of one function.
func (s *source) changed(defective *source) (was, is *ast.FuncDecl) {
	if len(s.file.Decls) != len(defective.file.Decls) {
		return nil, nil
	}
	for i, before := range s.file.Decls {
		after := defective.file.Decls[i]
		if s.between(before.Pos(), before.End()) == defective.between(after.Pos(), after.End()) {
			continue
		}
		f, ok := before.(*ast.FuncDecl)
		g, fits := after.(*ast.FuncDecl)
		if was != nil || !ok || !fits ||
			s.between(f.Pos(), f.Body.Lbrace) != defective.between(g.Pos(), g.Body.Lbrace) {
			return nil, nil
		}
		was, is = f, g
	}
	return was, is
}

// callOf is the statement by which a function gives way to another one with the same arguments.
func callOf(f *ast.FuncDecl, to string) (string, error) {
	if f.Type.TypeParams != nil {
		return "", fmt.Errorf("function %s has parameters that are types", f.Name.Name)
	}
	nameless := fmt.Errorf("function %s has arguments without a name", f.Name.Name)
	if f.Recv != nil {
		names := f.Recv.List[0].Names
		if len(names) == 0 || names[0].Name == "_" {
			return "", nameless
		}
		to = names[0].Name + "." + to
	}
	var arguments []string
	for _, field := range f.Type.Params.List {
		rest := ""
		if _, ok := field.Type.(*ast.Ellipsis); ok {
			rest = "..."
		}
		if len(field.Names) == 0 {
			return "", nameless
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				return "", nameless
			}
			arguments = append(arguments, name.Name+rest)
		}
	}
	call := fmt.Sprintf("%s(%s)", to, strings.Join(arguments, ", "))
	if f.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}
