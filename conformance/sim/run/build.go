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
	patched bool   // it has the patched runtime: what it does can be repeated
	server  string // the program of each server, of a world of processes; "": they are simulated
	hooked  bool   // that program has the hooks for faults of its disk
	sdk     string // the program of clients through the SDK
}

// variant holds options of the build.
type variant struct {
	cover   bool
	link    string            // flags of the linker
	replace map[string]string // further files in place of others
	// processes makes a program whose servers are processes, and that of these.
	processes bool
}

// build builds the program of one seed.
func build(ctx context.Context, name string, v variant) (built, error) {
	file, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		return built{}, err
	}
	if v.processes {
		return buildProcesses(ctx, file+".processes", v)
	}
	overlay, patched, err := patchLibrary(ctx, ".")
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
	return built{file: file, patched: patched}, compile(ctx, append(args, "./conformance/sim"))
}

// buildProcesses builds the program of one plan in a world of processes, and that of its servers.
func buildProcesses(ctx context.Context, file string, v variant) (b built, err error) {
	b.file = file
	b.server, b.sdk = filepath.Join(filepath.Dir(b.file), "coordd"), filepath.Join(filepath.Dir(b.file), "sdkload")
	overlay, hooked, err := patchLibrary(ctx, "^(os|syscall)/")
	if err != nil {
		return b, err
	}
	if b.hooked = hooked; len(v.replace) > 0 {
		if overlay, err = withFiles(overlay, v.replace, "processes.overlay.json"); err != nil {
			return b, err
		}
	}
	args := []string{"build", "-o", b.server}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if hooked {
		args = append(args, "-tags", "simdisk")
	}
	return b, errors.Join(compile(ctx, append(args, "./conformance/sim/process/simserver")),
		compile(ctx, []string{"build", "-C", "conformance/bench", "-o", b.sdk, "./sdkload"}),
		compile(ctx, []string{"test", "-c", "-vet=off", "-o", b.file, "./conformance/sim"}))
}

func compile(ctx context.Context, args []string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the simulation: %w\n%s", err, output)
	}
	return nil
}

// unknownVersion is the exit code of conformance/sim/overlay for a version of Go that it does not know.
const unknownVersion = 3

// patchLibrary makes the overlay of some packages. Without it, patched is false and the reason is printed.
func patchLibrary(ctx context.Context, only string) (overlay string, patched bool, err error) {
	tool := filepath.Join(folder, "overlay-tool")
	make := exec.CommandContext(ctx, "go", "build", "-o", tool, "./conformance/sim/overlay")
	if output, err := make.CombinedOutput(); err != nil {
		return "", false, fmt.Errorf("build the overlay's program: %w\n%s", err, output)
	}
	dir := filepath.Join(folder, "overlay")
	if only != "." {
		dir += "-disk"
	}
	output, err := exec.CommandContext(ctx, tool, "-o", dir, "-only", only).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == unknownVersion {
		fmt.Fprintf(os.Stderr, "%ssim: WARNING: this runs without the patched library: no run can be repeated, "+
			"nothing is frozen, all servers have one clock, and their disks keep everything\n", output)
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("make the overlay: %w\n%s", err, output)
	}
	return filepath.Join(dir, "overlay.json"), true, nil
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
