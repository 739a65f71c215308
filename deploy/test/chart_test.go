// Package deploy_test renders the chart of deploy/chart, and runs what it renders as Kubernetes would, in network
// namespaces. It is a module of its own, since it needs Helm's.
package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
)

const (
	chartDir  = "../chart"
	manifests = "../manifests.yaml"
	namespace = "coordd" // also the release's name, as in docs/kubernetes.md
)

var writeManifests = flag.Bool("write-manifests", false, "write deploy/manifests.yaml anew")

// loadChart reads the chart.
func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// template renders the chart as `helm template` does, with settings in the form of --set.
func template(c *chart.Chart, settings ...string) (string, error) {
	values := map[string]any{}
	for _, setting := range settings {
		if err := strvals.ParseInto(setting, values); err != nil {
			return "", err
		}
	}
	release := chartutil.ReleaseOptions{Name: "coordd", Namespace: namespace, Revision: 1, IsInstall: true}
	rendering, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, rendering)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	_, sorted, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	var text strings.Builder
	for _, manifest := range sorted {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", manifest.Name, manifest.Content)
	}
	return text.String(), err
}

// TestLint wants Helm to find nothing wrong with the chart.
func TestLint(t *testing.T) {
	for _, message := range lint.All(chartDir, nil, namespace, true).Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}

// TestWrongValues wants values that cannot be right to be refused with their name and what is allowed.
func TestWrongValues(t *testing.T) {
	c := loadChart(t)
	for setting, want := range map[string]string{
		"replicas=5":                    "replicas",
		"certificates=none":             `must be one of 'certManager', 'secrets'`,
		"clients.auth=off":              "clients/auth",
		"clients.port=1":                "port",
		"join=other-1":                  `join: "other-1" is not one of the servers: coordd-0, coordd-1, coordd-2`,
		"join=coordd-3":                 "'/join': 'coordd-3' does not match pattern",
		"storage.size=10":               "storage/size",
		"settings.COORD_LOG_FORMAT=a":   "COORD_LOG_FORMAT",
		"settings.COORDD_LISTEN=a":      "COORDD_LISTEN",
		"antiAffinity=never":            `must be one of 'required', 'preferred'`,
		"networkPolicy.clients=all":     "networkPolicy/clients",
		"serviceMonitor.interval=often": "serviceMonitor/interval",
		"image.repository=":             "image/repository",
	} {
		if _, err := template(c, setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", setting, err, want)
		}
	}
}

// sum returns a checksum of the chart. TestManifestsAreFresh computes it as well, in every run of the tests.
func sum(t *testing.T) string {
	t.Helper()
	hash := sha256.New()
	err := filepath.WalkDir(chartDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		fmt.Fprintf(hash, "%s %x\n", strings.TrimPrefix(filepath.ToSlash(name), chartDir+"/"), sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// TestManifests wants deploy/manifests.yaml to be what the chart renders.
func TestManifests(t *testing.T) {
	text, err := template(loadChart(t))
	if err != nil {
		t.Fatal(err)
	}
	text = "# Made by `make manifests`, as by `helm template coordd deploy/chart --namespace " + namespace + "`.\n" +
		"# Checksum of the chart: " + sum(t) + "\n" + text
	if *writeManifests {
		if err := os.WriteFile(manifests, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(manifests); err != nil || !bytes.Equal(there, []byte(text)) {
		t.Errorf("%s is not fresh: run make manifests (%v)", manifests, err)
	}
}

// keys returns the sorted keys of a map.
func keys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
