// Command overlay makes what go build takes with -overlay to link the simulation with a patched runtime and standard
// library. The patches are in patches.txt: what for, the file below GOROOT/src, the old and the new text. Each old text
// must occur exactly once. The new files are in the folder files.
//
//	go run ./conformance/sim/overlay -o DIR
//	go test -c -tags simrt -overlay DIR/overlay.json ./conformance/sim
//
// It ends with exit code 3 if the version of Go is another one than the patches were made for, or if a text is not
// there, and says where to look. A release of Go demands that, for each patch, the code around it is read again.
package main

import (
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// known is the line of Go releases that the patches were made for, checked the last release that they were tested with.
const (
	known   = "go1.26"
	checked = "go1.26.8"
)

//go:embed patches.txt
var patches string

//go:embed files
var files embed.FS

// added maps the new files of the standard library to those that they are made of.
var added = map[string]string{
	"runtime/zsim.go": "runtime.go.txt",
	"os/zsim.go":      "os.go.txt",
	"syscall/zsim.go": "syscall.go.txt",

	"internal/sync/zsim.go": "sync.go.txt",
}

// errUnknown means that Go is another one than the patches were made for.
var errUnknown = errors.New("the patches of conformance/sim/overlay do not fit this version of Go")

func main() {
	out := flag.String("o", "", "the folder to write to, which need not be there")
	only := flag.String("only", "", "patch packages with such paths only, a regular expression")
	flag.Parse()
	err := errors.New("no folder to write to: set -o")
	if *out != "" {
		err = write(*out, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
	}
	switch {
	case errors.Is(err, errUnknown):
		os.Exit(3)
	case err != nil:
		os.Exit(1)
	}
}

// patch is one change of a file.
type patch struct{ why, file, old, new string }

var form = regexp.MustCompile(`(?s)# ([^\n]+)\nfile: ([^\n]+)\n<<<<\n(.+?)\n====\n(.+?)\n>>>>\n`)

// parse returns the patches of a text that consists of nothing else.
func parse(text string) ([]patch, error) {
	var list []patch
	for _, parts := range form.FindAllStringSubmatch(text, -1) {
		list = append(list, patch{parts[1], parts[2], parts[3], parts[4]})
	}
	if rest := strings.TrimSpace(form.ReplaceAllString(text, "")); rest != "" {
		return nil, fmt.Errorf("patches.txt has text that is no patch: %.60q", rest)
	}
	return list, nil
}

// apply returns the patched files by their names. All patches that do not fit are in the error.
func apply(list []patch, read func(file string) (string, error)) (map[string]string, error) {
	texts := make(map[string]string)
	var problems []error
	for _, p := range list {
		text, patched := texts[p.file]
		if !patched {
			var err error
			if text, err = read(p.file); err != nil {
				problems = append(problems, fmt.Errorf("%w: %w", errUnknown, err))
				continue
			}
		}
		if count := strings.Count(text, p.old); count != 1 {
			problems = append(problems, fmt.Errorf("%w: in %s, this text is there %d times, not once: %q\n\t%s",
				errUnknown, p.file, count, p.old, p.why))
			continue
		}
		texts[p.file] = strings.Replace(text, p.old, p.new, 1)
	}
	return texts, errors.Join(problems...)
}

// goEnv returns variables of the go command.
func goEnv(names ...string) ([]string, error) {
	output, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return strings.Split(strings.TrimSpace(string(output)), "\n"), nil
}

// checkVersion wants a release of the known line, on Linux.
func checkVersion(version, system string) error {
	if system != "linux" {
		return fmt.Errorf("%w: they are for linux, this is %s", errUnknown, system)
	}
	if version != known && !strings.HasPrefix(version, known+".") {
		return fmt.Errorf("%w: they were checked with %s, this is %s. To take it in: set known in "+
			"conformance/sim/overlay/main.go, mend the patches that this command then lists, read the code around "+
			"all of them, in synctest.go, time.go and proc.go above all, and run make sim-check and make sim-repro",
			errUnknown, checked, version)
	}
	return nil
}

// write makes the overlay in a folder, of the patches of some packages.
func write(folder, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	env, err := goEnv("GOROOT", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return err
	}
	if len(env) != 4 {
		return fmt.Errorf("go env answers %q", env)
	}
	if err := checkVersion(env[1], env[2]); err != nil {
		return err
	}
	list, err := parse(patches)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(p patch) bool { return !wanted.MatchString(p.file) })
	source := filepath.Join(env[0], "src")
	for i := range list {
		list[i].file = strings.ReplaceAll(list[i].file, "GOARCH", env[3])
	}
	texts, err := apply(list, func(file string) (string, error) {
		text, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(file)))
		return string(text), err
	})
	if err != nil {
		return err
	}
	for name, file := range added {
		if !wanted.MatchString(name) {
			continue
		}
		text, err := files.ReadFile("files/" + file)
		if err != nil {
			return err
		}
		texts[name] = string(text)
	}
	return store(folder, source, texts)
}

// store writes the files and the list of what they replace.
func store(folder, source string, texts map[string]string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	replace := make(map[string]string)
	for name, text := range texts {
		to := filepath.Join(folder, "_std", filepath.FromSlash(name)) // where ./... does not look
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
		replace[filepath.Join(source, filepath.FromSlash(name))] = to
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "overlay.json"), list, 0o644)
}
