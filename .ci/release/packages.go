package main

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packages makes a .deb and an .rpm of coordd for each platform of Linux, of the files in deploy/package.
func (r *release) packages() error {
	contents, err := r.contents()
	if err != nil {
		return err
	}
	const deploy = "deploy/package/"
	for _, p := range r.platforms {
		if p.system != "linux" {
			continue
		}
		ofPlatform := append(files.Contents{{Source: r.binary(p, "coordd"), Destination: "/usr/bin/coordd",
			FileInfo: r.fileInfo(0o755)}}, contents...)
		debian := r.info(p, ofPlatform)
		debian.Recommends = []string{"systemd"}
		debian.Scripts = nfpm.Scripts{PostInstall: deploy + "debian.postinst", PreRemove: deploy + "debian.prerm",
			PostRemove: deploy + "debian.postrm"}
		redhat := r.info(p, ofPlatform)
		redhat.RPM.BuildHost, redhat.RPM.Summary = "coordd", "Coordination server for the YDB SDKs"
		redhat.Release, redhat.Depends = "1", []string{"/usr/sbin/useradd"}
		redhat.Scripts = nfpm.Scripts{PreInstall: deploy + "rpm.pre", PostInstall: deploy + "rpm.post",
			PreRemove: deploy + "rpm.preun", PostRemove: deploy + "rpm.postun"}
		if err := errors.Join(r.pack(deb.Default, debian), r.pack(&rpm.RPM{}, redhat)); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) pack(packager nfpm.Packager, info *nfpm.Info) error {
	name := filepath.Join(r.out, packager.ConventionalFileName(info))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, file), file.Close())
}

func (r *release) info(p platform, contents files.Contents) *nfpm.Info {
	return nfpm.WithDefaults(&nfpm.Info{Name: "coordd", Arch: p.machine, Platform: p.system, Version: r.version,
		Section: "net", Priority: "optional", Maintainer: "The coordd authors <noreply@github.com>",
		Description: "Coordination server for the YDB SDKs\n" +
			"Locks, leader election, service discovery and rate limits for programs that use a YDB SDK.",
		Homepage: "https://github.com/coordd/coordd", License: "Apache-2.0", MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents, Umask: 0o022}})
}

func (r *release) fileInfo(mode os.FileMode) *files.ContentFileInfo {
	return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}
}

// contents lists the files of a package that are the same on all platforms. Those that coordd prints are written to the
// temporary folder first.
func (r *release) contents() (files.Contents, error) {
	var list files.Contents
	add := func(source, destination string) {
		list = append(list, &files.Content{Source: source, Destination: destination, FileInfo: r.fileInfo(0o644)})
	}
	for source, destination := range map[string]string{
		"deploy/package/coordd.service":  "/usr/lib/systemd/system/coordd.service",
		"deploy/package/coordd.sysusers": "/usr/lib/sysusers.d/coordd.conf",
		"deploy/package/coordd.tmpfiles": "/usr/lib/tmpfiles.d/coordd.conf",
		"LICENSE":                        "/usr/share/doc/coordd/copyright",
		"THIRD-PARTY-NOTICES.txt":        "/usr/share/doc/coordd/THIRD-PARTY-NOTICES.txt",
	} {
		add(source, destination)
	}
	list = append(list, &files.Content{Source: "deploy/package/coordd.yaml", Destination: "/etc/coordd/coordd.yaml",
		Type: files.TypeConfigNoReplace, FileInfo: r.fileInfo(0o644)})
	printed, err := r.manual("coordd")
	if err != nil {
		return nil, err
	}
	places := make(map[string]string)
	for _, name := range slices.Collect(maps.Keys(printed)) {
		places[name+".gz"] = "/usr/share/man/man1/" + name + ".gz"
		packed, err := compressed([]byte(printed[name]))
		if err != nil {
			return nil, err
		}
		delete(printed, name)
		printed[name+".gz"] = string(packed)
	}
	for shell, destination := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/coordd",
		"zsh":  "/usr/share/zsh/vendor-completions/_coordd",
		"fish": "/usr/share/fish/vendor_completions.d/coordd.fish",
	} {
		script, err := output(r.binary(host(), "coordd"), "completion", shell)
		if err != nil {
			return nil, err
		}
		printed[shell], places[shell] = script+"\n", destination
	}
	for name, text := range printed {
		source := filepath.Join(r.work, name)
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			return nil, err
		}
		add(source, places[name])
		if name == "zsh" { // which looks elsewhere on other systems than Debian
			list[len(list)-1].Packager = "deb"
			add(source, "/usr/share/zsh/site-functions/_coordd")
			list[len(list)-1].Packager = "rpm"
		}
	}
	slices.SortFunc(list, func(a, b *files.Content) int { return cmp.Compare(a.Destination, b.Destination) })
	return list, nil
}
