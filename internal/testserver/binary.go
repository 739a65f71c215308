package testserver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Binary returns the path that Program returns, and fails the test without it.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Run runs a command of coordd, such as "cert", to its end, which must be a good one.
func Run(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command(Binary(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("coordd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Program returns the path of the program under test: the file that COORDD_BIN names, or else a build of the repository
// that the test is in.
var Program = sync.OnceValues(func() (string, error) { return find("COORDD_BIN", "coordd") })

// StandIn is Program for coordd-standin, which COORDD_STANDIN_BIN names.
var StandIn = sync.OnceValues(func() (string, error) { return find("COORDD_STANDIN_BIN", "coordd-standin") })

func find(variable, name string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return filepath.Abs(path) // a test may change its directory, or start the program in another one
	}
	return Build(".", name, "./cmd/"+name)
}

// Build builds the program of a package and returns its path below the directory that COORDD_BUILT names, or else
// bin/built in the repository. A name that ends in a slash is a directory for several programs. dir is the module's,
// relative to the repository. A program that is there already and up to date is not linked again.
func Build(dir, name, packages string) (path string, err error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	// go build takes a path that ends in a slash for a directory.
	path = cmp.Or(os.Getenv("COORDD_BUILT"), filepath.Join(root, "bin", "built")) + "/" + name
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(strings.TrimSuffix(path, "/") + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	command := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, packages)
	command.Dir, command.Env = filepath.Join(root, dir), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", packages, err, out)
	}
	return path, nil
}

// lock waits until no other process builds the same program.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// repository returns the directory of the server's module, which those of its nested modules lie in.
func repository() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := directory; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/coordd/coordd\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in a clone of coordd's repository: name the program by COORDD_BIN",
				directory)
		}
	}
}
