package main

import (
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// absence says why a program cannot be run, empty if it can.
func absence(binary, install string) string {
	if _, err := exec.LookPath(binary); err != nil {
		return "not installed: " + install
	}
	return ""
}

// newestJar is the last file of a folder that a pattern matches, empty if there is none.
func newestJar(dir, pattern string) string {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// output is what a program prints.
func output(binary string, args ...string) string {
	text, err := exec.Command(binary, args...).CombinedOutput()
	if err != nil {
		return "of an unknown version"
	}
	return strings.TrimSpace(string(text))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// moduleVersion is that of a module of this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of an unknown version"
}
