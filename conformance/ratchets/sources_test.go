package ratchets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// root is the folder of the repository.
const root = "../.."

// source is a Go file of the repository.
type source struct {
	name      string // relative to root, with slashes
	module    string // the folder of its go.mod
	text      string
	positions *token.FileSet
	syntax    *ast.File
	test      bool
	generated bool
}

// ofTests are the folders, with those in them, of what only tests, doubles and benchmarks use. conformance/sim is
// there because its packages are one test, which is split over folders.
var ofTests = []string{"internal/testserver", "internal/testmode", "raftstore/rig",
	"conformance/testlog", "conformance/sim"}

// isOfTests reports whether a folder is one of ofTests or lies in one.
func isOfTests(folder string) bool {
	return slices.ContainsFunc(ofTests, func(outer string) bool {
		return folder == outer || strings.HasPrefix(folder, outer+"/")
	})
}

// sources parses the Go files of all modules, without testdata.
func sources() ([]*source, error) {
	var files []*source
	modules := make(map[string]string) // the module of each folder
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		folder := path.Dir(relative)
		switch {
		case entry.IsDir() && (entry.Name() == "testdata" || relative == "bin" || relative == ".git"):
			return filepath.SkipDir
		case entry.IsDir():
			modules[relative] = modules[folder]
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				modules[relative] = relative
			}
			return nil
		case !strings.HasSuffix(relative, ".go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f := &source{name: relative, module: modules[folder], text: string(text), positions: token.NewFileSet(),
			test: strings.HasSuffix(relative, "_test.go") || isOfTests(folder)}
		f.syntax, err = parser.ParseFile(f.positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f.generated = ast.IsGenerated(f.syntax)
		files = append(files, f)
		return nil
	})
	return files, err
}

func (f *source) lines() int { return strings.Count(f.text, "\n") }

// linesOver counts the lines with more columns than most; a tab takes four.
func (f *source) linesOver(most int) int {
	n := 0
	for line := range strings.Lines(f.text) {
		if len([]rune(strings.TrimRight(line, "\n")))+3*strings.Count(line, "\t") > most {
			n++
		}
	}
	return n
}

// functionsOver counts the functions with more lines than most.
func (f *source) functionsOver(most int) int {
	n := 0
	for _, declaration := range f.syntax.Decls {
		if function, is := declaration.(*ast.FuncDecl); is &&
			f.positions.Position(function.End()).Line-f.positions.Position(function.Pos()).Line >= most {
			n++
		}
	}
	return n
}

// Types that exceed one of these have a row of their own.
const (
	manyMethods = 60
	manyFields  = 30
)

// largeTypes returns the methods of the types that have many, and the fields.
func largeTypes(files []*source) map[string]int {
	numbers := make(map[string]int)
	for _, f := range files {
		if f.test || f.generated {
			continue
		}
		for _, declaration := range f.syntax.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					numbers["methods of "+path.Dir(f.name)+"."+receiver(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, is := spec.(*ast.TypeSpec); is {
						numbers["fields of "+path.Dir(f.name)+"."+t.Name.Name] = fields(t.Type)
					}
				}
			}
		}
	}
	maps.DeleteFunc(numbers, func(name string, n int) bool {
		return n <= manyFields || strings.HasPrefix(name, "methods") && n <= manyMethods
	})
	return numbers
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return e.(*ast.Ident).Name
}

// fields counts the fields of a struct, an embedded type as one.
func fields(e ast.Expr) int {
	if s, is := e.(*ast.StructType); is {
		return s.Fields.NumFields()
	}
	return 0
}

// goList runs go list in root for the platform that the numbers are of.
func goList(arguments ...string) (string, error) {
	command := exec.Command("go", append([]string{"list"}, arguments...)...)
	command.Dir = root
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	listed, err := command.Output()
	return string(listed), err
}

// linkedFiles returns the files of the repository that are linked into the server.
func linkedFiles() (map[string]bool, error) {
	const template = `{{if and .Module .Module.Main}}{{range .GoFiles}}{{$.Module.Dir}}|{{$.Dir}}/{{.}}
{{end}}{{end}}`
	listed, err := goList("-deps", "-f", template, "./cmd/coordd")
	if err != nil {
		return nil, err
	}
	linked := make(map[string]bool)
	for line := range strings.Lines(listed) {
		if top, name, found := strings.Cut(strings.TrimSpace(line), "|"); found {
			linked[strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(top)+"/")] = true
		}
	}
	return linked, nil
}

var requirement = regexp.MustCompile(`(?m)^\t[^ ]+ v[^ ]+( // .*)?$`)

// directDependencies counts the modules that go.mod requires itself.
func directDependencies() (int, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, line := range requirement.FindAllString(string(text), -1) {
		if !strings.HasSuffix(line, "// indirect") {
			n++
		}
	}
	return n, nil
}
