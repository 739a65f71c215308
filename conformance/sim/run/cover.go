package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// coverFolder makes an empty folder for what the processes have reached.
func coverFolder() (string, error) {
	dir, err := filepath.Abs(filepath.Join(folder, "cover"))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// coverage prints the share of each package's statements that were reached, and writes the profile of go tool cover.
func coverage() error {
	profile := filepath.Join(folder, "cover.out")
	merge := exec.Command("go", "tool", "covdata", "textfmt", "-i", filepath.Join(folder, "cover"), "-o", profile)
	if output, err := merge.CombinedOutput(); err != nil {
		return fmt.Errorf("merge the coverage: %w\n%s", err, output)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\nsim: go tool cover -html %s shows the statements\n", shares(string(text)), profile)
	return nil
}

// shares returns, for each package of a profile, the share of statements that were reached.
func shares(profile string) string {
	type block struct{ statements, reached int }
	blocks := map[string]block{}
	for line := range strings.Lines(profile) {
		fields := strings.Fields(line) // FILE:FROM,TO STATEMENTS TIMES
		if len(fields) != 3 {
			continue
		}
		n, _ := strconv.Atoi(fields[1])
		b := block{statements: n}
		if fields[2] != "0" {
			b.reached = n
		}
		b.reached = max(b.reached, blocks[fields[0]].reached)
		blocks[fields[0]] = b
	}
	packages := map[string]block{}
	for at, b := range blocks {
		file, _, _ := strings.Cut(at, ":")
		if strings.HasSuffix(file, ".pb.go") {
			continue
		}
		name := filepath.Dir(file)
		packages[name] = block{packages[name].statements + b.statements, packages[name].reached + b.reached}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		b := packages[name]
		share := 100 * float64(b.reached) / float64(max(b.statements, 1))
		lines = append(lines, fmt.Sprintf("%5.1f %% of %5d statements: %s", share, b.statements, name))
	}
	return strings.Join(lines, "\n")
}
