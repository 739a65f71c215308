package client

import (
	"bytes"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var writeAPI = flag.Bool("write-api", false, "write testdata/api.txt anew")

// The exported declarations are those of testdata/api.txt: programs are built on them, so a change of that file is a
// change for users, and a line of the changelog.
func TestAPI(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file)
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				f.Body = nil
			} else if declaration.(*ast.GenDecl).Tok == token.IMPORT {
				continue
			}
			var text bytes.Buffer
			if err := format.Node(&text, fset, declaration); err != nil {
				t.Fatal(err)
			}
			declared = append(declared, text.String()+"\n")
		}
	}
	slices.Sort(declared)
	got, golden := strings.Join(declared, "\n"), filepath.Join("testdata", "api.txt")
	if *writeAPI {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the exported declarations are not those of %s; where that is intended, go test ./client "+
			"-run TestAPI -args -write-api, and a line of CHANGELOG.md. They are:\n%s", golden, got)
	}
}
