// Package deploy_test has the tests of what the packages contain besides programs, without making a release.
package deploy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testserver"
)

// TestUnit wants the unit of the packages to be correct and hardened, as systemd judges.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("NOT TESTED: the unit, since systemd-analyze is not here")
	}
	text, err := os.ReadFile("coordd.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "coordd.service")
	installed := strings.Replace(string(text), "/usr/bin/coordd ", "/bin/true ", 1) // which verify wants to exist
	if err := os.WriteFile(unit, []byte(installed), 0o644); err != nil {
		t.Fatal(err)
	}
	if printed, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil ||
		len(printed) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, printed)
	}
	judge := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)
	printed, err := judge.CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v: %s", err, printed)
	}
	t.Logf("%s", regexp.MustCompile(`(?m)^.*Overall exposure.*$`).Find(printed))
}

// TestMembersAreRecognized runs the line by which an upgrade recognizes a member of a cluster, on every way in which a
// setting can be written.
func TestMembersAreRecognized(t *testing.T) {
	for _, script := range []string{"debian.postinst", "rpm.postun"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`if (grep .*) /etc/coordd/coordd\.yaml; then`).FindSubmatch(text)
		if line == nil {
			t.Fatalf("%s looks for no member", script)
		}
		for settings, want := range map[string]bool{"listen-peer: a:1\n": true, "  join: a:1\n": true,
			"data-dir: x\n\"initial-cluster\": a=b:1\n": true, "'join' : a:1\n": true, "listen-peer : a:1\n": true,
			"data-dir: /join:/x\n": false, "# join: a:1\n": false, "listen: a:1\nadvertise: listen-peer:1\n": false} {
			grep := exec.Command("sh", "-c", string(line[1]))
			grep.Stdin = strings.NewReader(settings)
			if err := grep.Run(); (err == nil) != want {
				t.Errorf("%s, %q: %v", script, settings, err)
			}
		}
	}
}

// packed are the files of the Debian package in this folder, with their places.
var packed = map[string]string{"coordd.service": "usr/lib/systemd/system/coordd.service",
	"coordd.sysusers": "usr/lib/sysusers.d/coordd.conf", "coordd.tmpfiles": "usr/lib/tmpfiles.d/coordd.conf",
	"coordd.yaml": "etc/coordd/coordd.yaml", "debian.postinst": "DEBIAN/postinst", "debian.prerm": "DEBIAN/prerm",
	"debian.postrm": "DEBIAN/postrm"}

// pack makes a package of a version, of the program under test.
func pack(t *testing.T, version, to string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), version)
	copies := map[string]string{testserver.Binary(t): "usr/bin/coordd"}
	for name, place := range packed {
		copies[name] = place
	}
	for name, place := range copies {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(place, "DEBIAN/") || strings.HasPrefix(place, "usr/bin/") {
			mode = 0o755
		}
		write(t, filepath.Join(root, place), string(content), mode)
	}
	write(t, root+"/DEBIAN/control", fmt.Sprintf("Package: coordd\nVersion: %s\nArchitecture: all\n"+
		"Maintainer: nobody\nDescription: of a test\n", version), 0o644)
	write(t, root+"/DEBIAN/conffiles", "/etc/coordd/coordd.yaml\n", 0o644)
	build := exec.Command("dpkg-deb", "--root-owner-group", "-Znone", "--build", root, to)
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, printed)
	}
}

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// patience bounds a run that only a failing test does not end.
const patience = 5 * time.Minute

// TestService has systemd, as process 1 of a copy of this machine, install, start, restart, upgrade, watch and remove
// the service, by the script testdata/service. COORDD_SERVICE is a folder with packages of a release and the script's
// variables, or "built": packages of the program under test.
func TestService(t *testing.T) {
	folder := os.Getenv("COORDD_SERVICE")
	if folder == "" {
		t.Skip("make service-test runs it")
	}
	for _, program := range []string{"/lib/systemd/systemd", "dpkg-deb", "unshare", "pivot_root"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			t.Skipf("NOT TESTED: the service under systemd, since that needs root and %s", program)
		}
	}
	if folder == "built" {
		folder = t.TempDir()
		pack(t, "1", folder+"/first.deb")
		pack(t, "2", folder+"/later.deb")
		write(t, folder+"/variables", `INSTALL='dpkg -i /shared/first.deb' BACK="$INSTALL"
UPGRADE='dpkg -i /shared/later.deb' SAYS='restart one member at a time'
REMOVE='dpkg --remove coordd' PURGE='dpkg --purge coordd'
TAKE='coordd lock --create-node locks door -- echo I have the lock'
`, 0o644)
	}
	var script strings.Builder
	for _, name := range []string{folder + "/variables", "testdata/service"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		script.Write(text)
	}
	write(t, folder+"/service", script.String(), 0o644)
	if err := os.Mkdir(folder+"/machine", 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	boot := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork",
		"--kill-child", "bash", "testdata/boot", folder)
	if os.Getenv("COORDD_SERVICE") != "built" { // the caller's network has what is to be downloaded
		boot.Args = append(boot.Args[:1], boot.Args[2:]...)
	}
	booted, err := boot.CombinedOutput()
	printed, errPrinted := os.ReadFile(folder + "/printed")
	switch {
	case os.IsNotExist(errPrinted): // as in a container that may mount nothing
		t.Skipf("NOT TESTED: the service, since systemd does not come up here: %v\n%s", err, booted)
	case !strings.Contains(string(printed), "\nthe service is as it should be\n"):
		t.Errorf("systemd: %v\n%s\nthe script:\n%s", err, booted, printed)
	}
}
