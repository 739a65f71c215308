package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// folder is where everything is built, below the top of the repository.
const folder = "bin/sim"

// built is a program of one seed.
type built struct {
	file    string
	patched bool // it has the patched runtime: what it does can be repeated
}

// variant holds options of the build.
type variant struct {
	cover   bool
	link    string            // flags of the linker
	replace map[string]string // further files in place of others
}

// build builds the program of one seed.
func build(ctx context.Context, name string, v variant) (built, error) {
	file, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		return built{}, err
	}
	overlay, patched, err := patchRuntime(ctx)
	if err != nil {
		return built{}, err
	}
	if len(v.replace) > 0 {
		if overlay, err = withFiles(overlay, v.replace, name+".overlay.json"); err != nil {
			return built{}, err
		}
	}
	args := []string{"test", "-c", "-vet=off", "-o", file}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if patched {
		args = append(args, "-tags", "simrt")
	}
	if v.link != "" {
		args = append(args, "-ldflags", v.link)
	}
	if v.cover {
		args = append(args, "-coverpkg", "./raftstore/...,./server/...,./coordination/...,./scheme/...")
	}
	compile := exec.CommandContext(ctx, "go", append(args, "./conformance/sim")...)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := compile.CombinedOutput()
	if err != nil {
		return built{}, fmt.Errorf("build the simulation: %w\n%s", err, output)
	}
	return built{file, patched}, nil
}

// unknownVersion is the exit code of conformance/sim/overlay for a version of Go that it does not know.
const unknownVersion = 3

// patchRuntime makes the overlay. Without it, patched is false and the reason is printed.
func patchRuntime(ctx context.Context) (overlay string, patched bool, err error) {
	tool := filepath.Join(folder, "overlay-tool")
	make := exec.CommandContext(ctx, "go", "build", "-o", tool, "./conformance/sim/overlay")
	if output, err := make.CombinedOutput(); err != nil {
		return "", false, fmt.Errorf("build the overlay's program: %w\n%s", err, output)
	}
	output, err := exec.CommandContext(ctx, tool, "-o", filepath.Join(folder, "overlay")).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == unknownVersion {
		fmt.Fprintf(os.Stderr, "%ssim: WARNING: this runs without the patched runtime: no run can be repeated, "+
			"nothing is frozen, all servers have one clock, and their disks keep everything\n", output)
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("make the overlay: %w\n%s", err, output)
	}
	return filepath.Join(folder, "overlay", "overlay.json"), true, nil
}

// withFiles adds files to an overlay.
func withFiles(overlay string, replace map[string]string, name string) (string, error) {
	list := struct{ Replace map[string]string }{map[string]string{}}
	if overlay != "" {
		text, err := os.ReadFile(overlay)
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
	}
	for original, file := range replace {
		list.Replace[original] = file
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, name)
	return file, os.WriteFile(file, text, 0o644)
}
