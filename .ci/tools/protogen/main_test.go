package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const source = `syntax = "proto3";
package sample.v1;
import "sample/part.proto";
option go_package = "example.test/sample";

// Row is one row.
message Row {
  uint64 id = 1; // never 0
  Part part = 2;
  oneof value { string text = 3; bytes data = 4; }
}
`

const imported = `syntax = "proto3";
package sample.v1;
option go_package = "example.test/sample";
message Part { uint32 number = 1; }
`

// TestGenerateAndCheck generates from a scratch folder and then spoils it in
// every way that the check has to notice.
func TestGenerateAndCheck(t *testing.T) {
	plugin := buildPlugin(t)
	root := t.TempDir()
	write(t, root, "sample/row.proto", source)
	write(t, root, "sample/part.proto", imported)
	sources := []string{"sample/row.proto", "sample/part.proto"}
	swapped := []string{"sample/part.proto", "sample/row.proto"}

	if err := run([]string{plugin}, root, sources, true); err == nil ||
		!strings.Contains(err.Error(), "sample/row.pb.go") {
		t.Fatalf("check before anything was generated: %v, want the missing file named", err)
	}
	if err := run([]string{plugin}, root, sources, false); err != nil {
		t.Fatal(err)
	}
	first := read(t, root, "sample/row.pb.go")
	for _, want := range []string{"// Row is one row.", "// never 0", "package sample"} {
		if !strings.Contains(first, want) {
			t.Errorf("generated code has no %q", want)
		}
	}
	if err := run([]string{plugin}, root, swapped, false); err != nil {
		t.Fatal(err)
	}
	if read(t, root, "sample/row.pb.go") != first {
		t.Error("two runs gave different code")
	}
	if err := run([]string{plugin}, root, swapped, true); err != nil {
		t.Errorf("check of fresh code: %v", err)
	}

	write(t, root, "sample/row.pb.go", first+"\n")
	if err := run([]string{plugin}, root, sources, true); err == nil ||
		!strings.Contains(err.Error(), "sample/row.pb.go") {
		t.Errorf("check of edited code: %v, want it named", err)
	}
	write(t, root, "sample/row.pb.go", first)
	write(t, root, "sample/old.pb.go", first)
	if err := run([]string{plugin}, root, sources, true); err == nil ||
		!strings.Contains(err.Error(), "sample/old.pb.go (no source)") {
		t.Errorf("check with a file that has no source: %v, want it named", err)
	}
}

// TestBrokenSource wants the place of a mistake in the message.
func TestBrokenSource(t *testing.T) {
	root := t.TempDir()
	write(t, root, "bad.proto", "syntax = \"proto3\";\nmessage {}\n")
	err := run([]string{"unused"}, root, []string{"bad.proto"}, false)
	if err == nil || !strings.Contains(err.Error(), "bad.proto:2:9") {
		t.Fatalf("got %v, want the file, line and column", err)
	}
}

// buildPlugin builds the pinned protoc-gen-go.
func buildPlugin(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "protoc-gen-go")
	command := exec.Command("go", "build", "-o", path, "google.golang.org/protobuf/cmd/protoc-gen-go")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build protoc-gen-go: %v\n%s", err, output)
	}
	return path
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
