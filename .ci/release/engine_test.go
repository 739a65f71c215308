package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// serveRegistry serves the images of the release as a registry does from which one can only pull, on a loopback
// address, to which engines speak plain HTTP.
func serveRegistry(t *testing.T, folder string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	images := make(map[string]map[string][]byte)
	for _, program := range programs {
		images[program] = blobsOf(t, filepath.Join(folder, "dist"), program)
	}
	handler := http.NewServeMux()
	handler.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	handler.HandleFunc("GET /v2/coordd/{program}/{kind}/{reference}", func(w http.ResponseWriter, r *http.Request) {
		blobs, reference := images[r.PathValue("program")], r.PathValue("reference")
		if reference == version {
			var index manifest
			if err := json.Unmarshal(blobs["index.json"], &index); err != nil {
				t.Error(err)
				return
			}
			reference = index.Manifests[0].Digest
		}
		content, found := blobs["blobs/"+strings.Replace(reference, ":", "/", 1)]
		if !found {
			http.NotFound(w, r)
			return
		}
		if r.PathValue("kind") == "manifests" {
			var m manifest
			if err := json.Unmarshal(content, &m); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", m.Type)
		}
		w.Header().Set("Docker-Content-Digest", reference)
		_, _ = w.Write(content)
	})
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return "http://" + listener.Addr().String() + "/"
}

// TestEngine runs the images in the Docker engine that with-engine has found or started.
func TestEngine(t *testing.T) {
	folder := inside(t)
	host := serveRegistry(t, folder)
	command := exec.Command("bash")
	command.Env, command.SysProcAttr = command.Environ(), &syscall.SysProcAttr{}
	start := lines(t, "# a container", host)
	shell(t, command, append(start, lines(t, "docker exec", host)...), "coordd "+tag)
	registry := strings.TrimPrefix(host, "http://")
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", "--volumes", "coordd").Run() })
	for format, want := range map[string]string{
		"{{.Config.User}}":                                            "65532:65532",
		"{{.Config.Healthcheck.Test}}":                                "[CMD /coordd health]",
		"{{index .Config.Entrypoint 0}}":                              "/coordd",
		`{{index .Config.Labels "org.opencontainers.image.version"}}`: version,
	} {
		got, err := output("docker", "image", "inspect", "--format", format, registry+"coordd/coordd:"+version)
		if err != nil || got != want {
			t.Errorf("%s: got %q, want %q, %v", format, got, want, err)
		}
	}
	said, err := output("docker", "run", "--rm", registry+"coordd/coordd-standin:"+version, "version")
	if err != nil || !strings.HasPrefix(said, "coordd-standin "+tag) {
		t.Errorf("the stand-in's image: %q, %v", said, err)
	}
}
