package ratchets

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// arrows are the uses between the files of a package: one from each file to each other of whose identifiers it
// uses any, methods and fields included.
type arrows struct{ up, all int }

// arrowsUp returns the arrows of each package of the main module, test code aside, by its folder. A file should use
// only files below it; an arrow up is one that runs against the order of the files that has the fewest of them.
func arrowsUp() (map[string]arrows, error) {
	listed, err := goList("-deps", "-export", "-json=ImportPath,Dir,GoFiles,Export,Module", "./...")
	if err != nil {
		return nil, err
	}
	type listing struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		Module                  *struct {
			Main bool
			Dir  string
		}
	}
	exports := make(map[string]string)
	var ours []listing
	for decoder := json.NewDecoder(strings.NewReader(listed)); ; {
		var p listing
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	positions := token.NewFileSet()
	imported := importer.ForCompiler(positions, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	found := make(map[string]arrows)
	for _, p := range ours {
		folder, err := filepath.Rel(p.Module.Dir, p.Dir)
		if err != nil {
			return nil, err
		}
		if isOfTests(filepath.ToSlash(folder)) {
			continue
		}
		uses, err := fileUses(positions, imported, p.ImportPath, p.Dir, p.GoFiles)
		if err != nil {
			return nil, err
		}
		if all := uses.count(); all > 0 {
			found[filepath.ToSlash(folder)] = arrows{up: uses.against(uses.order()), all: all}
		}
	}
	return found, nil
}

// graph holds for each file, by number, the files that it uses.
type graph []map[int]bool

func newGraph(files int) graph {
	g := make(graph, files)
	for i := range g {
		g[i] = make(map[int]bool)
	}
	return g
}

// fileUses type-checks a package and returns which of its files uses which. Generated files stand apart.
func fileUses(positions *token.FileSet, imported types.Importer, importPath, dir string,
	names []string) (graph, error) {
	var files []*ast.File
	number := make(map[*token.File]int)
	for _, name := range names {
		f, err := parser.ParseFile(positions, filepath.Join(dir, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		if !ast.IsGenerated(f) {
			number[positions.File(f.Pos())] = len(number)
		}
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: imported}
	checked, err := config.Check(importPath, positions, files, &info)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", importPath, err)
	}
	uses := newGraph(len(number))
	for identifier, object := range info.Uses {
		if object.Pkg() != checked {
			continue
		}
		from, isOurs := number[positions.File(identifier.Pos())]
		to, toOurs := number[positions.File(object.Pos())]
		if isOurs && toOurs && from != to {
			uses[from][to] = true
		}
	}
	return uses, nil
}

func (g graph) count() int {
	n := 0
	for _, used := range g {
		n += len(used)
	}
	return n
}

// against counts the arrows that run up where the files lie on each other in this order, the ground first.
func (g graph) against(order []int) int {
	n := 0
	for at, from := range order {
		for _, above := range order[at+1:] {
			if g[from][above] {
				n++
			}
		}
	}
	return n
}

// starts is from how many orders the search begins. The best of one comes out some arrows above the best of all.
const starts = 32

// order returns an order with few arrows up. From several orders, always the same, it moves one file after the
// other to the place where it causes the fewest, until no move helps.
func (g graph) order() []int {
	var best []int
	for seed := range uint64(starts) {
		order := rand.New(rand.NewPCG(seed, 0)).Perm(len(g))
		for moved := true; moved; {
			moved = false
			for file := range g {
				moved = g.improve(order, file) || moved
			}
		}
		if best == nil || g.against(order) < g.against(best) {
			best = order
		}
	}
	return best
}

// improve moves a file to the place in the order where it causes the fewest arrows up, and reports whether that
// is another place with fewer of them.
func (g graph) improve(order []int, file int) bool {
	at := slices.Index(order, file)
	best, least := at, 0
	for _, step := range []int{-1, 1} {
		change := 0
		for to := at + step; to >= 0 && to < len(order); to += step {
			passed := order[to]
			below, above := passed, file
			if step > 0 {
				below, above = file, passed
			}
			if g[above][below] { // ran down
				change++
			}
			if g[below][above] { // ran up
				change--
			}
			if change < least {
				best, least = to, change
			}
		}
	}
	copy(order, slices.Insert(slices.Delete(slices.Clone(order), at, at+1), best, file))
	return best != at
}

func TestOrder(t *testing.T) {
	for _, test := range []struct {
		uses string // "ba" for b that uses a
		up   int
	}{
		{"", 0}, {"ba cb ca", 0}, {"ab bc ac", 0}, {"ab ba", 1}, {"ab bc ca", 1}, {"ab ba bc cb ac ca", 3},
		{"ab bc cd da", 1}, {"ab ac ad ae be ce de bf cf df ef fa", 1},
	} {
		g := newGraph(6)
		for _, use := range strings.Fields(test.uses) {
			g[use[0]-'a'][int(use[1]-'a')] = true
		}
		if up := g.against(g.order()); up != test.up {
			t.Errorf("%s: %d arrows up, want %d", test.uses, up, test.up)
		}
	}
}
