package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// service has the test of the service in deploy/package, which boots systemd, use packages of the two releases.
func service(t *testing.T, folder, first, upgrade string, commands map[string]string) {
	t.Helper()
	shared := t.TempDir()
	var variables strings.Builder
	for name, command := range commands {
		fmt.Fprintf(&variables, "%s='%s'\n", name, strings.ReplaceAll(command, "'", `'\''`))
	}
	if err := os.WriteFile(filepath.Join(shared, "variables"), []byte(variables.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for source, name := range map[string]string{"dist/" + first: "first", "later/" + upgrade: "later"} {
		content, err := os.ReadFile(filepath.Join(folder, source))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shared, name+filepath.Ext(first)), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	test := exec.Command("go", "test", "-count=1", "-v", "-run=^TestService$", "./deploy/package")
	test.Dir, test.Env = "../..", append(os.Environ(), "COORDD_SERVICE="+shared)
	printed, err := test.CombinedOutput()
	if t.Logf("%s", printed); err == nil && bytes.Contains(printed, []byte("--- SKIP")) {
		t.SkipNow()
	}
	if err != nil {
		t.Error(err)
	}
}

// TestInsidePackage installs the Debian package by README's command, takes README's lock, and goes on from there.
func TestInsidePackage(t *testing.T) {
	folder := inside(t)
	install, take := lines(t, "# a Debian package", serveFiles(t, folder)), lines(t, "coordd serve", "")[1:]
	if len(install)+len(take) > mostCommands {
		t.Errorf("%d commands until there is a lock", len(install)+len(take))
	}
	service(t, folder, "coordd_"+version+"_amd64.deb", "coordd_"+later[1:]+"_amd64.deb", map[string]string{
		"INSTALL": strings.Join(install, "\n"), "TAKE": strings.Join(take, "\n"),
		"UPGRADE": "dpkg -i /shared/later.deb", "BACK": "dpkg -i /shared/first.deb",
		"SAYS": "restart one member at a time", "REMOVE": "dpkg --remove coordd", "PURGE": "dpkg --purge coordd"})
}

// TestInsideRedHatPackage is that for the .rpm, on a Debian: rpm knows none of the packages that are there.
func TestInsideRedHatPackage(t *testing.T) {
	folder := inside(t)
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("NOT TESTED: the .rpm, since there is no rpm")
	}
	const rpm = "rpm --force-debian --nodeps "
	printed, err := output("rpm", "--query", "--package", "--requires", "--list",
		filepath.Join(folder, "dist", "coordd-"+version+"-1.x86_64.rpm"))
	for _, want := range []string{"/usr/sbin/useradd\n", "/usr/share/zsh/site-functions/_coordd\n"} {
		if err != nil || !strings.Contains(printed+"\n", want) {
			t.Errorf("the .rpm lacks %q: %v\n%s", want, err, printed)
		}
	}
	service(t, folder, "coordd-"+version+"-1.x86_64.rpm", "coordd-"+later[1:]+"-1.x86_64.rpm", map[string]string{
		"INSTALL": rpm + "--install /shared/first.rpm && systemctl enable --now coordd",
		"TAKE":    strings.Join(lines(t, "coordd serve", "")[1:], "\n"),
		"UPGRADE": rpm + "--upgrade /shared/later.rpm",
		"BACK":    rpm + "--upgrade --oldpackage /shared/first.rpm", "SAYS": "restart one member at a time",
		"REMOVE": rpm + "--erase coordd", "PURGE": ""})
}
