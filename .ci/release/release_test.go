package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// later is the release that an upgrade comes to.
const later = "v99.0.0"

// The tests make releases in clones of this repository's last commit, which get the tag there that README.md names.
var (
	tag     string
	version string // without the v

	scratch string
	commit  string // of this repository, whatever is committed while the tests run
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "coordd-release-test-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		if commit, err = output("git", "rev-parse", "HEAD"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		readme, err := os.ReadFile("../../README.md")
		named := regexp.MustCompile(`/releases/download/(v(\S+?))/`).FindSubmatch(readme)
		if err != nil || named == nil {
			fmt.Fprintln(os.Stderr, "README.md names no version:", err)
			return 1
		}
		tag, version = string(named[1]), string(named[2])
		return m.Run()
	}())
}

// maker is the surroundings of one `make release`.
type maker struct {
	folder, umask, zone, user, tag string
	settings                       string // of `go env -w`
	platforms                      string
	apart                          bool // as another user, with caches of its own, of builds and of modules
}

// make makes a release in a new clone, and returns its folder.
func (m maker) make() (string, error) {
	clone := filepath.Join(scratch, m.folder)
	root, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	home, err := filepath.Abs(clone + "-home")
	if err != nil {
		return "", err
	}
	cache, err := output("go", "env", "GOCACHE")
	if err != nil {
		return "", err
	}
	modules, err := output("go", "env", "GOMODCACHE")
	if err != nil {
		return "", err
	}
	proxy, err := output("go", "env", "GOPROXY")
	if err != nil {
		return "", err
	}
	if m.apart {
		cache, proxy, modules = home+"/cache", "file://"+modules+"/cache/download,"+proxy, home+"/modules"
	}
	script := fmt.Sprintf("umask %s && git clone --quiet --no-hardlinks --no-tags %s %s && cd %s && "+
		"git checkout --quiet %s && git tag %s && make --no-print-directory release PLATFORMS=%s", m.umask, root, clone,
		clone, commit, m.tag, m.platforms)
	command := exec.Command("bash", "-euc", script)
	if m.apart { // another user, who can read the same files
		command = exec.Command("unshare", "--user", "--map-user=65534", "--map-group=65534", "bash", "-euc", script)
	}
	command.Env = append(os.Environ(), "HOME="+home, "USER="+m.user, "LOGNAME="+m.user, "TZ="+m.zone,
		"GOFLAGS=-modcacherw", "GOCACHE="+cache, "GOMODCACHE="+modules, "GOPROXY="+proxy, "TMPDIR="+home,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "MAKEFLAGS=")
	if err := os.MkdirAll(home+"/.config/go", 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(home+"/.config/go/env", []byte(m.settings), 0o644); err != nil {
		return "", err
	}
	printed, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make release: %w\n%s", err, printed)
	}
	return filepath.Join(clone, "dist"), nil
}

// first is the release that most tests look at.
var first = sync.OnceValues(func() (string, error) {
	platforms := allPlatforms
	if testing.Short() {
		platforms = "linux/amd64,windows/amd64"
	}
	return maker{folder: "first", umask: "022", zone: "UTC", user: "root", tag: tag, platforms: platforms}.make()
})

func dist(t *testing.T) string {
	t.Helper()
	made, err := first()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestReproducible wants the same bytes from two clones at different paths, with other umasks, time zones and users.
// The long form fetches and compiles everything a second time, as another user.
func TestReproducible(t *testing.T) {
	t.Parallel()
	one := dist(t)
	m := maker{folder: "the/second-one", umask: "077", zone: "Pacific/Chatham", user: "somebody", tag: tag,
		platforms: "linux/amd64", apart: !testing.Short(), settings: "GOAMD64=v3\nGOFLAGS=-tags=of_the_user\n"}
	two, err := m.make()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(two)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, entry := range entries {
		if name := entry.Name(); name != "SHA256SUMS" && !strings.HasSuffix(name, "_oci.tar") {
			compared++
			a, errA := sumOf(filepath.Join(one, name))
			b, errB := sumOf(filepath.Join(two, name))
			if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s: %x and %x, %v", name, a, b, err)
			}
		}
	}
	if compared < 6 { // two archives, two SBOMs, two packages
		t.Errorf("only %d files were compared", compared)
	}
	for _, program := range programs { // the images of the first have more platforms
		a, b := blobsOf(t, one, program), blobsOf(t, two, program)
		for name, content := range b {
			if strings.HasPrefix(name, "blobs/") && !isIndex(content) && !bytes.Equal(a[name], content) {
				t.Errorf("%s: the image of the first release lacks %s", program, name)
			}
		}
	}
}

func isIndex(blob []byte) bool { return bytes.Contains(blob, []byte(`"manifests"`)) }

// blobsOf reads the image of a program.
func blobsOf(t *testing.T, dist, program string) map[string][]byte {
	t.Helper()
	file, err := os.Open(filepath.Join(dist, program+"_"+version+"_oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return untar(t, file)
}

func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if found[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestContents looks at what is in the release.
func TestContents(t *testing.T) {
	made := dist(t)
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = made
	if printed, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, printed)
	}
	sums, err := os.ReadFile(filepath.Join(made, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(made)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "SHA256SUMS" && !strings.Contains(string(sums), "  "+name+"\n") {
			t.Errorf("SHA256SUMS lacks %s", name)
		}
	}
	for _, program := range programs {
		packed, err := os.Open(filepath.Join(made, program+"_"+version+"_linux_amd64.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		plain, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		files := untar(t, plain)
		wantNames(t, program, files, program, "LICENSE", "THIRD-PARTY-NOTICES.txt")
		unpacked := filepath.Join(t.TempDir(), program)
		if err := os.WriteFile(unpacked, files[program], 0o755); err != nil {
			t.Fatal(err)
		}
		if said, err := output(unpacked, "version"); err != nil || !strings.HasPrefix(said, program+" "+tag+" (go") {
			t.Errorf("%s version: %q, %v", program, said, err)
		}
		zipped, err := zip.OpenReader(filepath.Join(made, program+"_"+version+"_windows_amd64.zip"))
		if err != nil {
			t.Fatal(err)
		}
		defer zipped.Close()
		inZip := make(map[string][]byte)
		for _, file := range zipped.File {
			inZip[file.Name] = nil
		}
		wantNames(t, program, inZip, program+".exe", "LICENSE", "THIRD-PARTY-NOTICES.txt")
	}
}

func wantNames(t *testing.T, of string, files map[string][]byte, want ...string) {
	t.Helper()
	for _, name := range want {
		if _, found := files[name]; !found {
			t.Errorf("%s: no %s", of, name)
		}
	}
	if len(files) != len(want) {
		t.Errorf("%s: %d files, want %d", of, len(files), len(want))
	}
}

// TestBoms wants each linked module in the SBOM, in the version that go.release.mod names.
func TestBoms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(dist(t), "coordd_"+version+"_linux_amd64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string)
	for _, p := range b.Packages {
		versions[p.Name] = p.Version
	}
	released, err := os.ReadFile("../../go.release.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"google.golang.org/grpc", "go.etcd.io/raft/v3", "github.com/spf13/cobra"} {
		if !strings.Contains(string(released), "\t"+module+" "+versions[module]) || versions[module] == "" {
			t.Errorf("%s: %q is not what go.release.mod names", module, versions[module])
		}
	}
	if versions["github.com/coordd/coordd"] != tag || versions["stdlib"] == "" ||
		len(b.Relationships) != len(b.Packages) {
		t.Errorf("the SBOM has %d packages, %d relationships, and %v", len(b.Packages), len(b.Relationships), versions)
	}
}

// TestManual wants a man page for each command, which man can read.
func TestManual(t *testing.T) {
	debian := filepath.Join(dist(t), "coordd_"+version+"_amd64.deb")
	printed, err := exec.Command("dpkg-deb", "--fsys-tarfile", debian).Output()
	if err != nil {
		t.Skipf("NOT TESTED: man pages, since there is no dpkg-deb: %v", err)
	}
	files := untar(t, bytes.NewReader(printed))
	pages := 0
	for name, content := range files {
		if !strings.Contains(name, "/man/man1/") || !strings.HasSuffix(name, ".gz") {
			continue
		}
		pages++
		plain, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(plain)
		var text []string
		for lines.Scan() {
			text = append(text, lines.Text())
		}
		for _, title := range []string{".SH NAME", ".SH SYNOPSIS"} {
			if !slices.Contains(text, title) {
				t.Errorf("%s has no %s", name, title)
			}
		}
		if groff, err := exec.LookPath("groff"); err == nil {
			check := exec.Command(groff, "-man", "-Tascii", "-ww", "-z")
			check.Stdin = strings.NewReader(strings.Join(text, "\n") + "\n")
			if complaints, err := check.CombinedOutput(); err != nil || len(complaints) > 0 {
				t.Errorf("%s: groff: %v: %s", name, err, complaints)
			}
		}
	}
	if pages < 40 {
		t.Errorf("only %d man pages", pages)
	}
}
