// Command release makes all files of a release in a folder, from the commit that a version's tag names:
//
//	release [-out DIR] [-platforms OS/ARCH,...] -- go build FLAG...
//
// It runs at the top of a clean clone. After the dashes comes the command that builds a program; ${version} in it is
// replaced by the tag. Every byte depends on the commit alone, not on the path, the user, the umask, the time zone or
// the clock.
package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// allPlatforms lists the platforms of a release. On Windows there are the client commands and the stand-in.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

// programs are released, each in archives, an SBOM and an image of its own.
var programs = []string{"coordd", "coordd-standin"}

// release makes one release.
type release struct {
	version   string // without the v
	time      time.Time
	platforms []platform
	out       string
	work      string   // a temporary folder
	build     []string // the command, as in the command's documentation
}

type platform struct{ system, machine string }

func (p platform) String() string { return p.system + "_" + p.machine }

func main() {
	out := flag.String("out", "dist", "the folder to make")
	platforms := flag.String("platforms", allPlatforms, "what to build for")
	flag.Parse()
	if err := run(*out, *platforms, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(out, platforms string, build []string) error {
	if len(build) == 0 {
		return errors.New("no command given that builds a program: see make release")
	}
	r := &release{out: out, build: build}
	for name := range strings.SplitSeq(platforms, ",") {
		system, machine, _ := strings.Cut(name, "/")
		r.platforms = append(r.platforms, platform{system, machine})
	}
	if err := r.readTag(); err != nil {
		return err
	}
	var err error
	if r.work, err = os.MkdirTemp("", "coordd-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	for _, step := range []func() error{r.buildAll, r.archives, r.boms, r.images, r.packages, r.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

var versionTag = regexp.MustCompile(`^v(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)$`)

// readTag finds the version and the time of the commit. A clone with changes has no version.
func (r *release) readTag() error {
	changes, err := output("git", "status", "--porcelain")
	if err == nil && changes != "" {
		err = fmt.Errorf("the clone has changes that no tag names:\n%s", changes)
	}
	if err != nil {
		return err
	}
	tags, err := output("git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	for tag := range strings.FieldsSeq(tags) {
		if found := versionTag.FindStringSubmatch(tag); found != nil {
			r.version = found[1]
		}
	}
	if r.version == "" {
		return errors.New("no tag vMAJOR.MINOR.PATCH names this commit: git tag v0.1.0")
	}
	stamp, err := output("git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	r.time = time.Unix(seconds, 0).UTC()
	return err
}

// output returns what a command prints.
func output(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Stderr = os.Stderr
	printed, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(command.Args, " "), err)
	}
	return strings.TrimSpace(string(printed)), nil
}

// host is this machine's platform: its programs write their own man pages and completions.
func host() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// buildAll builds the programs for every platform, and for this machine's.
func (r *release) buildAll() error {
	platforms := r.platforms
	if !slices.Contains(platforms, host()) {
		platforms = append(slices.Clip(platforms), host())
	}
	toolchain, err := os.ReadFile("go.release.mod")
	if err != nil {
		return err
	}
	named := regexp.MustCompile(`(?m)^toolchain (\S+)$`).FindSubmatch(toolchain)
	if named == nil {
		return errors.New("go.release.mod names no toolchain")
	}
	environment := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN="+string(named[1]),
		// Where a variable is empty, the value of `go env -w` would count.
		"GOAMD64=", "GOARM64=", "GOEXPERIMENT=", "GOENV=off")
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE"} {
		value, err := output("go", "env", name) // where modules come from is the user's
		if err != nil {
			return err
		}
		environment = append(environment, name+"="+value)
	}
	for _, p := range platforms {
		args := slices.Clone(r.build[1:])
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "${version}", "v"+r.version)
		}
		args = append(args, "-o", filepath.Dir(r.binary(p, "x"))+"/")
		for _, program := range programs {
			args = append(args, "./cmd/"+program)
		}
		command := exec.Command(r.build[0], args...)
		command.Env = append(slices.Clip(environment), "GOOS="+p.system, "GOARCH="+p.machine)
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("%s for %s: %w", strings.Join(args, " "), p, err)
		}
	}
	return nil
}

// binary names a built program.
func (r *release) binary(p platform, program string) string {
	if p.system == "windows" {
		program += ".exe"
	}
	return filepath.Join(r.work, p.String(), program)
}

// checksums lists the SHA-256 of all files, as sha256sum does.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var list strings.Builder
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(list.String()), 0o644)
}

func sumOf(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hash.Sum(nil), err
}
