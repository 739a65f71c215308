// Package plant puts hand-made defects into code that only the compiler sees.
package plant

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// chooser is the variable of each package with defects that names the one in force. It is read from Variable, one of
// the environment: where that is empty, the code does what it does otherwise.
const (
	chooser  = "plantedDefect"
	Variable = "PLANTED_DEFECT"
)

// All writes the files of the repository that have defects, with all of them, into the folder work, and returns them by
// the files that they stand in for.
func All(root, work string, list []Defect) (map[string]string, error) {
	byFile := make(map[string][]Defect)
	for _, d := range list {
		byFile[d.File] = append(byFile[d.File], d)
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
			return nil, err
		}
		text, err := os.ReadFile(original)
		if err != nil {
			return nil, err
		}
		planted, name, err := plant(string(text), byFile[file])
		problems = append(problems, err)
		put(original, planted)
		put(filepath.Join(filepath.Dir(original), "planted_defect.go"), fmt.Sprintf(
			"package %s\n\nimport \"os\"\n\nvar %s = os.Getenv(%q)\n", name, chooser, Variable))
	}
	return replace, errors.Join(problems...)
}

// Overlay writes the list that makes the compiler take some files in place of others, and returns its name.
func Overlay(work string, replace map[string]string) (string, error) {
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(work, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// Check returns an error unless every defect fits the code and all of them compile.
func Check(root, work string, list []Defect) error {
	replace, err := All(root, work, list)
	if err != nil {
		return err
	}
	overlay, err := Overlay(work, replace)
	if err != nil {
		return err
	}
	command := []string{"build", "-overlay", overlay}
	for _, d := range list {
		command = append(command, "./"+path.Dir(d.File))
	}
	build := exec.Command("go", command...)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the defects do not compile: %w\n%s", err, output)
	}
	return nil
}

// plant returns the text of a file with all of its defects, and the name of its package. For each defect
// there is a defective copy of the function that it is in, which the function calls instead of its own body if the
// defect is in force. The compiler's errors about a copy name the defect as its file.
func plant(text string, defects []Defect) (planted, name string, err error) {
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
	for _, d := range defects {
		text, err := d.apply(text)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		defective, err := read(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("defect %s: %w", d.Name, err))
			continue
		}
		was, is := original.changed(defective)
		if was == nil {
			problems = append(problems, fmt.Errorf("defect %s is not in the body of one function", d.Name))
			continue
		}
		copied := is.Name.Name + "_" + d.Name
		call, err := callOf(was, copied)
		if err != nil {
			problems = append(problems, fmt.Errorf("defect %s: %w", d.Name, err))
			continue
		}
		calls = append(calls, insertion{original.offset(was.Body.Lbrace) + 1,
			fmt.Sprintf(" if %s == %q { %s };", chooser, d.Name, call)})
		fmt.Fprintf(&copies, "\n//line %s:1\n%s%s%s\n", d.Name, defective.between(is.Pos(), is.Name.Pos()),
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
