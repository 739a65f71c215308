package linear

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// movers are functions that move or compare elements in one step, so that counters see no loop.
var movers = []string{"slices.Contains", "slices.Delete", "slices.Index", "slices.Insert", "slices.Replace", "copy"}

// TestMovesAreBounded wants a reason in moves.txt for every function of the packages whose turns everybody
// shares that calls one of the movers.
func TestMovesAreBounded(t *testing.T) {
	found := make(map[string]bool)
	for _, folder := range []string{"coordination", "coordination/accounts", "scheme", "server/group",
		"server/group/compare", "server/group/limiter", "server/group/streams"} {
		files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, declared := range parsed.Decls {
				if f, is := declared.(*ast.FuncDecl); is && moves(f) {
					found[folder+"/"+filepath.Base(file)+" "+f.Name.Name] = true
				}
			}
		}
	}
	text, err := os.ReadFile("moves.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		where, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case where == "" || strings.HasPrefix(where, "#"):
		case why == "" || !found[where]:
			t.Errorf("moves.txt: %q moves nothing, or has no bound", where)
		}
		delete(found, where)
	}
	for _, where := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: how many elements can it move? moves.txt does not say", where)
	}
}

// moves reports whether a function calls one of the movers.
func moves(f *ast.FuncDecl) (is bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall {
			return true
		}
		name := ""
		switch callee := call.Fun.(type) {
		case *ast.Ident:
			name = callee.Name
		case *ast.SelectorExpr:
			if in, isName := callee.X.(*ast.Ident); isName {
				name = in.Name + "." + callee.Sel.Name
			}
		}
		is = is || slices.Contains(movers, name)
		return true
	})
	return is
}
